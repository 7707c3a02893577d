import { type JSX, onMount } from "solid-js";
import { Icon } from "./Icon.tsx";

/** A modal dialog; Escape and a click beside it close it. */
export function Dialog(props: { title: string; close: () => void; children: JSX.Element }) {
  let dialog: HTMLDialogElement | undefined;
  onMount(() => {
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("textarea, input")?.focus();
  });
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes every dialog
    <dialog
      ref={dialog}
      class="dialog"
      aria-label={props.title}
      onClose={() => props.close()}
      onClick={(event) => event.target === dialog && dialog?.close()}
    >
      <div class="dialog-body" tabindex="-1" autofocus>
        <div class="dialog-head">
          <h2>{props.title}</h2>
          <button
            type="button"
            class="button plain icon"
            aria-label="Close"
            onClick={() => dialog?.close()}
          >
            <Icon name="close" />
          </button>
        </div>
        {props.children}
      </div>
    </dialog>
  );
}
