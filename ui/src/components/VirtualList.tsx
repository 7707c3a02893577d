import {
  type Accessor,
  createEffect,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  onMount,
} from "solid-js";

interface Props<T> {
  label: string;
  items: T[];
  rowHeight: number;
  row: (item: T, index: Accessor<number>) => JSX.Element;
  selected: number;
  onSelect: (index: number) => void;
  onOpen?: (index: number) => void;
  /** The reader is near the end. */
  onEnd?: () => void;
  footer?: JSX.Element;
}

/** Rows beyond the visible ones that exist, too, so that a quick scroll shows no holes. */
const OVERSCAN = 8;

/** A list of any length: only the visible rows exist. Arrow keys move the selection. */
export function VirtualList<T>(props: Props<T>) {
  let element: HTMLDivElement | undefined;
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(0);
  onMount(() => {
    const observer = new ResizeObserver(() => setHeight(element?.clientHeight ?? 0));
    if (element) {
      observer.observe(element);
    }
    onCleanup(() => observer.disconnect());
  });

  const first = () => Math.max(0, Math.floor(top() / props.rowHeight) - OVERSCAN);
  const last = () =>
    Math.min(props.items.length, Math.ceil((top() + height()) / props.rowHeight) + OVERSCAN);
  const visible = () => props.items.slice(first(), last());
  createEffect(() => {
    if (height() > 0 && last() >= props.items.length - OVERSCAN) {
      props.onEnd?.();
    }
  });

  const show = (index: number) => {
    if (!element || index < 0) {
      return;
    }
    const begin = index * props.rowHeight;
    if (begin < element.scrollTop) {
      element.scrollTop = begin;
    } else if (begin + props.rowHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = begin + props.rowHeight - element.clientHeight;
    }
  };
  createEffect(on(() => props.selected, show));

  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height() / props.rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Number.MAX_SAFE_INTEGER,
      End: Number.MAX_SAFE_INTEGER,
    };
    const step = steps[event.key];
    if (step !== undefined && props.items.length > 0) {
      const from = props.selected < 0 ? (step > 0 ? -1 : 0) : props.selected;
      props.onSelect(Math.max(0, Math.min(props.items.length - 1, from + step)));
      event.preventDefault();
    } else if (event.key === "Enter" && props.selected >= 0) {
      props.onOpen?.(props.selected);
      event.preventDefault();
    }
  };
  const index = (offset: Accessor<number>) => () => first() + offset();
  return (
    <div
      ref={element}
      class="list"
      role="listbox"
      tabindex="0"
      aria-label={props.label}
      aria-activedescendant={props.selected >= 0 ? `row-${props.selected}` : undefined}
      onScroll={() => setTop(element?.scrollTop ?? 0)}
      onKeyDown={onKeyDown}
    >
      <div class="list-space" style={{ height: `${props.items.length * props.rowHeight}px` }}>
        <div class="list-rows" style={{ transform: `translateY(${first() * props.rowHeight}px)` }}>
          <For each={visible()}>{(item, offset) => props.row(item, index(offset))}</For>
        </div>
      </div>
      {props.footer}
    </div>
  );
}
