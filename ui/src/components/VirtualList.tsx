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

/** Which row a key leads to; `null`: it is not a key of the list. */
function target(key: string, from: number, count: number, page: number): number | null {
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
  const step = steps[key];
  if (step === undefined || count === 0) {
    return null;
  }
  // Without a selection, the first key selects the first row.
  const begin = from < 0 ? (step > 0 ? -1 : 0) : from;
  return Math.max(0, Math.min(count - 1, begin + step));
}

/** Reports the height of an element as long as the component exists. */
function watchHeight(element: HTMLElement, report: (height: number) => void): void {
  const observer = new ResizeObserver(() => report(element.clientHeight));
  observer.observe(element);
  onCleanup(() => observer.disconnect());
}

/** Scrolls as little as needed to show a row. */
function reveal(list: HTMLElement | undefined, index: number, rowHeight: number): void {
  if (!list || index < 0) {
    return;
  }
  const begin = index * rowHeight;
  if (begin < list.scrollTop) {
    list.scrollTop = begin;
  } else if (begin + rowHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = begin + rowHeight - list.clientHeight;
  }
}

/** A list of any length: only the visible rows exist. Arrow keys move the selection. */
export function VirtualList<T>(props: Props<T>) {
  let element: HTMLDivElement | undefined;
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(0);
  onMount(() => element && watchHeight(element, setHeight));

  const first = () => Math.max(0, Math.floor(top() / props.rowHeight) - OVERSCAN);
  const last = () =>
    Math.min(props.items.length, Math.ceil((top() + height()) / props.rowHeight) + OVERSCAN);
  const visible = () => props.items.slice(first(), last());
  createEffect(() => {
    if (height() > 0 && last() >= props.items.length - OVERSCAN) {
      props.onEnd?.();
    }
  });

  // Records that arrive in front must not move what the reader looks at.
  createEffect(
    on(
      () => props.items,
      (items, before) => {
        const known = before?.[0];
        if (element && known !== undefined && element.scrollTop > 0 && items[0] !== known) {
          element.scrollTop += Math.max(0, items.indexOf(known)) * props.rowHeight;
        }
      },
    ),
  );

  createEffect(
    on(
      () => props.selected,
      (index) => reveal(element, index, props.rowHeight),
    ),
  );

  const onKeyDown = (event: KeyboardEvent) => {
    const next = target(event.key, props.selected, props.items.length, pageRows());
    if (next !== null) {
      props.onSelect(next);
      event.preventDefault();
    } else if (event.key === "Enter" && props.selected >= 0) {
      props.onOpen?.(props.selected);
      event.preventDefault();
    }
  };
  const pageRows = () => Math.max(1, Math.floor(height() / props.rowHeight) - 1);
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
      <div
        class="list-space"
        role="presentation"
        style={{ height: `${props.items.length * props.rowHeight}px` }}
      >
        <div
          class="list-rows"
          role="presentation"
          style={{ transform: `translateY(${first() * props.rowHeight}px)` }}
        >
          <For each={visible()}>{(item, offset) => props.row(item, index(offset))}</For>
        </div>
      </div>
      {props.footer}
    </div>
  );
}
