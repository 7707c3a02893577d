import { createSignal, Show } from "solid-js";
import { exportEvidence } from "../../api/queries.ts";
import { Icon } from "../../components/Icon.tsx";
import { toast } from "../../components/Toast.tsx";
import { scope } from "../../lib/scope.ts";
import { mayExport } from "../../lib/session.ts";

/** Downloads everything that the search finds, with its proof. */
export function ExportButton(props: { q: string }) {
  const [isBusy, setBusy] = createSignal(false);
  const run = async () => {
    setBusy(true);
    try {
      const { name, content } = await exportEvidence({ ...scope(), q: props.q });
      save(name, content);
      toast(`${name}: check it with tacho verify`);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Show when={mayExport()}>
      <button
        type="button"
        class="button plain"
        aria-label="Export evidence"
        title="Download these records with their proof, for tacho verify"
        disabled={isBusy()}
        onClick={run}
      >
        <Icon name="sealed" />
        <span class="wide-only-inline">{isBusy() ? "Exporting" : "Export evidence"}</span>
      </button>
    </Show>
  );
}

function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has begun to read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
