import { Show } from "solid-js";
import { fetchRecord } from "../api/queries.ts";
import { Crumbs } from "../components/Crumbs.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { RecordDetail } from "../components/RecordDetail.tsx";
import { ErrorBox } from "../components/States.tsx";
import { useShortcuts } from "../lib/keyboard.ts";
import { recordHref } from "../lib/links.ts";
import { createQuery } from "../lib/resource.ts";
import { go, href, place } from "../lib/router.ts";

/** One record: all fields, its proof, and the way to its neighbors. */
export default function RecordPage(props: { server: string; seq: string }) {
  const query = createQuery(
    () => [props.server, props.seq, place().params.get("generation")] as const,
    ([server, seq, generation], signal) => fetchRecord(server, seq, generation, signal),
  );
  const neighbor = (side: "before" | "after") => {
    const seq = query.data()?.neighbours?.[side];
    return seq === null || seq === undefined ? null : recordHref({ server: props.server, seq });
  };
  const step = (side: "before" | "after") => {
    const to = neighbor(side);
    if (to !== null) {
      go(to, { replace: true });
    }
  };
  useShortcuts([
    { keys: "ArrowLeft", label: "Record before", group: "Record", run: () => step("before") },
    { keys: "ArrowRight", label: "Record after", group: "Record", run: () => step("after") },
    { keys: "k", label: "Record before", group: "Record", run: () => step("before") },
    { keys: "j", label: "Record after", group: "Record", run: () => step("after") },
    { keys: "Escape", label: "Back", group: "Record", run: () => history.back() },
  ]);
  return (
    <Page
      title={`Record ${props.seq}`}
      isUnscoped
      crumbs={
        <Crumbs
          path={[
            { text: "Search", href: href("/search") },
            { text: props.server, href: href("/search", { server: props.server }) },
            { text: props.seq },
          ]}
        />
      }
      actions={
        <div class="pair">
          <Step label="Record before" icon="left" to={neighbor("before")} />
          <Step label="Record after" icon="right" to={neighbor("after")} />
        </div>
      }
    >
      <Show when={query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <Show when={query.data()}>
        {(answer) => (
          <div classList={{ stale: query.stale() }}>
            <RecordDetail answer={answer()} />
          </div>
        )}
      </Show>
    </Page>
  );
}

function Step(props: { label: string; icon: "left" | "right"; to: string | null }) {
  return (
    <button
      type="button"
      class="button icon"
      aria-label={props.label}
      title={`${props.label} (${props.icon === "left" ? "←" : "→"})`}
      disabled={props.to === null}
      onClick={() => props.to !== null && go(props.to, { replace: true })}
    >
      <Icon name={props.icon} />
    </button>
  );
}
