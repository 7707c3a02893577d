import { createMemo, createSignal, For, Show } from "solid-js";
import { Crumbs } from "../components/Crumbs.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { Empty, ErrorBox } from "../components/States.tsx";
import { Text } from "../components/Text.tsx";
import { VirtualList } from "../components/VirtualList.tsx";
import { duration, integer } from "../lib/format.ts";
import { recordHref } from "../lib/links.ts";
import { createRecords, type RecordPages } from "../lib/records.ts";
import { go, href } from "../lib/router.ts";
import { dateTime } from "../lib/time.ts";
import { steps, type Totals, totals } from "../lib/timeline.ts";
import { Lane } from "./connection/Lane.tsx";
import { StepRow } from "./connection/StepRow.tsx";

const PAGE = 1000;
const ROW = 28;
/** A connection is found by its number, whenever it was. */
const ALWAYS = { from: "2000-01-01T00:00:00Z", to: "2200-01-01T00:00:00Z" };

interface Props {
  server: string;
  run: string;
  conn: string;
}

/** One connection from login to logout. */
export default function Connection(props: Props) {
  const q = () => `run:${props.run} conn:${props.conn}`;
  const pages = createRecords(() => ({
    ...ALWAYS,
    server: [props.server],
    q: q(),
    order: "asc" as const,
    limit: PAGE,
  }));
  return (
    <Page
      title={`Connection ${props.conn}`}
      isUnscoped
      class="search"
      crumbs={
        <Crumbs
          path={[
            { text: "Search", href: href("/search") },
            { text: props.server, href: href("/search", { server: props.server }) },
            { text: `Connection ${props.conn}` },
          ]}
        />
      }
      actions={
        <a class="button" href={href("/search", { server: props.server, q: q() })}>
          <Icon name="search" />
          <span class="wide-only-inline">Search in it</span>
        </a>
      }
    >
      <Show when={pages.error()}>
        {(error) => <ErrorBox error={error()} retry={pages.reload} />}
      </Show>
      <Show
        when={pages.records().length > 0}
        fallback={
          <Show when={!pages.loading() && !pages.error()}>
            <Empty title="This connection has no records">
              The hub does not have them, or its retention has removed them.
            </Empty>
          </Show>
        }
      >
        <Timeline pages={pages} />
      </Show>
    </Page>
  );
}

/** Figures, the line of all statements, and the list. */
function Timeline(props: { pages: RecordPages }) {
  const all = createMemo(() => steps(props.pages.records()));
  const sum = createMemo(() => totals(all()));
  const [selected, setSelected] = createSignal(-1);
  const open = (index: number) => {
    const step = all()[index];
    if (step?.kind === "record") {
      go(recordHref(step.record));
    }
  };
  const select = (index: number) => {
    // A second click on the selected line opens it.
    if (index === selected()) {
      open(index);
    }
    setSelected(index);
  };
  return (
    <>
      <Head sum={sum()} isComplete={props.pages.isComplete()} />
      <section class="panel lane-panel" aria-label="Over time">
        <Lane
          steps={all()}
          from={sum().from}
          to={sum().to}
          selected={selected()}
          onSelect={setSelected}
        />
      </section>
      <section class="panel results" aria-label="Events">
        <VirtualList
          label="Events of the connection"
          items={all()}
          rowHeight={ROW}
          selected={selected()}
          onSelect={setSelected}
          onOpen={open}
          onEnd={props.pages.more}
          row={(step, index) => (
            <StepRow
              step={step}
              index={index}
              isSelected={selected() === index()}
              onSelect={select}
            />
          )}
        />
      </section>
    </>
  );
}

function Head(props: { sum: Totals; isComplete: boolean }) {
  const sum = () => props.sum;
  const who = () => sum().first ?? sum().last;
  const length = () => sum().to - sum().from;
  const isOpen = () => sum().last?.event !== "disconnect";
  const figures = (): [string, string, boolean][] => [
    ["Duration", duration(length()), false],
    ["Statements", integer(sum().statements), false],
    ["Errors", integer(sum().errors), sum().errors > 0],
    ["Busy", duration(sum().busy), false],
    ["Rows sent", integer(sum().rowsSent), false],
    ["Rows changed", integer(sum().rowsAffected), false],
  ];
  return (
    <div class="connection-head">
      <div class="connection-who">
        <strong>
          <Text value={who()?.user || "(no user)"} />
        </strong>
        <span class="second">
          <Text value={[who()?.host ?? who()?.ip, who()?.db].filter(Boolean).join(" · ")} />
        </span>
        <span class="muted num">
          {dateTime(sum().from, 3)}
          {" – "}
          {!props.isComplete
            ? "more below"
            : isOpen()
              ? "no logout recorded"
              : dateTime(sum().to, 3)}
        </span>
      </div>
      <dl class="figures bare">
        <For each={figures()}>
          {([name, value, isBad]) => (
            <div>
              <dt>{name}</dt>
              <dd class="num" classList={{ bad: isBad }}>
                {value}
              </dd>
            </div>
          )}
        </For>
      </dl>
    </div>
  );
}
