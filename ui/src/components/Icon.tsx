import { mergeProps } from "solid-js";

/** Outlines in a box of 16 by 16. */
const PATHS = {
  overview: "M2 13.5h12M3.5 11V8M6.5 11V4.5M9.5 11V6.5M12.5 11V3",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14",
  statements: "M2.5 3.5h11M2.5 8h7.5M2.5 12.5h4.5",
  servers: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.75h.01M5 11.25h.01M8 4.75h3M8 11.25h3",
  alerts:
    "M8 2a4 4 0 0 0-4 4c0 4-1.5 5-1.5 5h11S12 10 12 6a4 4 0 0 0-4-4ZM6.7 13.5a1.5 1.5 0 0 0 2.6 0",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.5",
  refresh: "M13.5 8a5.5 5.5 0 1 1-1.6-3.9L13.5 5.7M13.5 2.5v3.2h-3.2",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7-4.5z",
  down: "M4.5 6.5 8 10l3.5-3.5",
  left: "M9.5 4 5.5 8l4 4",
  right: "M6.5 4l4 4-4 4",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3.5 8.5l3 3 6-7",
  user: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3 13.5c.5-2.5 2.5-4 5-4s4.5 1.5 5 4",
  sun: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  moon: "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7Z",
  screen: "M2 3h12v8H2zM6 13.5h4",
  keyboard: "M1.5 4h13v8h-13zM4 6.7h.01M6.7 6.7h.01M9.3 6.7h.01M12 6.7h.01M5 9.5h6",
  star: "M8 2l1.8 3.8 4.2.5-3.1 2.8.8 4.1L8 11.2l-3.7 2 .8-4.1L2 6.3l4.2-.5z",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  shield: "M8 1.8l5 1.9v4c0 3-2 5.3-5 6.5-3-1.2-5-3.5-5-6.5v-4z",
  sealed: "M8 1.8l5 1.9v4c0 3-2 5.3-5 6.5-3-1.2-5-3.5-5-6.5v-4zM5.7 8l1.7 1.7 3-3.4",
  broken: "M8 1.8l5 1.9v4c0 3-2 5.3-5 6.5-3-1.2-5-3.5-5-6.5v-4zM6.2 6.2l3.6 3.6M9.8 6.2 6.2 9.8",
  warning: "M8 2.5l6 11H2zM8 6.5v3.2M8 11.6h.01",
  filter: "M2.5 3.5h11l-4.2 5v4l-2.6 1.2V8.5z",
  zoomOut: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14M5 7h4",
  link: "M6.5 9.5l3-3M7 4.5l1-1a3 3 0 0 1 4.5 4.5l-1 1M9 11.5l-1 1A3 3 0 0 1 3.5 8l1-1",
  exit: "M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3",
  live: "M8 9a1 1 0 1 0 0-2 1 1 0 0 0 0 2ZM5 11a4.2 4.2 0 0 1 0-6M11 5a4.2 4.2 0 0 1 0 6M3 13a7 7 0 0 1 0-10M13 3a7 7 0 0 1 0 10",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon(props: { name: IconName; size?: number }) {
  const own = mergeProps({ size: 16 }, props);
  return (
    <svg
      width={own.size}
      height={own.size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[own.name]} />
    </svg>
  );
}

/** The disc of a tachograph. */
export function Logo(props: { size?: number }) {
  return (
    <svg
      width={props.size ?? 22}
      height={props.size ?? 22}
      viewBox="0 0 22 22"
      fill="none"
      stroke="currentColor"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path stroke-width="1.8" opacity=".4" d="M20 11a9 9 0 1 1-2.6-6.4" />
      <path stroke-width="1.8" d="M11 15.5a4.5 4.5 0 1 1 4.2-2.9M11 11l6.4-6.4" />
    </svg>
  );
}
