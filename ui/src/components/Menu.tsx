import { createSignal, type JSX, onCleanup, onMount, Show } from "solid-js";

interface Props {
  /** The accessible name of the button. */
  label: string;
  button: JSX.Element;
  buttonClass?: string;
  /** Where the menu opens. */
  side?: "left" | "right";
  up?: boolean;
  /** The content; `close` closes the menu. */
  children: (close: () => void) => JSX.Element;
}

/** A button that opens a menu. Arrow keys move, Escape closes and gives the focus back. */
export function Menu(props: Props) {
  const [isOpen, setOpen] = createSignal(false);
  let button: HTMLButtonElement | undefined;
  const close = () => {
    setOpen(false);
    button?.focus();
  };
  return (
    <div class="menu">
      <button
        ref={button}
        type="button"
        class={props.buttonClass ?? "button"}
        aria-label={props.label}
        title={props.label}
        aria-haspopup="true"
        aria-expanded={isOpen()}
        onClick={() => setOpen(!isOpen())}
      >
        {props.button}
      </button>
      <Show when={isOpen()}>
        <Popover
          side={props.side ?? "right"}
          up={props.up ?? false}
          close={close}
          label={props.label}
        >
          {props.children(close)}
        </Popover>
      </Show>
    </div>
  );
}

interface PopoverProps {
  side: "left" | "right";
  up: boolean;
  close: () => void;
  label: string;
  children: JSX.Element;
}

function Popover(props: PopoverProps) {
  let element: HTMLDivElement | undefined;
  const outside = (event: PointerEvent) => {
    const menu = element?.parentElement;
    if (menu && event.target instanceof Node && !menu.contains(event.target)) {
      props.close();
    }
  };
  onMount(() => {
    document.addEventListener("pointerdown", outside);
    element?.querySelector<HTMLElement>("input, .item.at, .item")?.focus();
    keepInside(element);
  });
  onCleanup(() => document.removeEventListener("pointerdown", outside));

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      props.close();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const items = [...(element?.querySelectorAll<HTMLElement>(".item") ?? [])];
      const at = items.indexOf(document.activeElement as HTMLElement);
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      items[(next + items.length) % items.length]?.focus();
      event.preventDefault();
    }
  };
  return (
    <div
      ref={element}
      class="popover"
      classList={{ left: props.side === "left", up: props.up }}
      role="dialog"
      aria-label={props.label}
      onKeyDown={onKeyDown}
    >
      {props.children}
    </div>
  );
}

/** On narrow screens a menu may begin left of the window. */
function keepInside(element: HTMLElement | undefined): void {
  const box = element?.getBoundingClientRect();
  if (!element || !box) {
    return;
  }
  const shift = box.left < 8 ? 8 - box.left : Math.min(0, innerWidth - 8 - box.right);
  if (shift !== 0) {
    element.style.setProperty("translate", `${shift}px 0`);
  }
}
