import { createSignal } from "solid-js";

/** A page of the UI: everything that the address bar says. */
export interface Place {
  path: string;
  params: URLSearchParams;
}

function read(): Place {
  return { path: location.pathname, params: new URLSearchParams(location.search) };
}

const [place, setPlace] = createSignal<Place>(read());

/** Where the reader is. */
export { place };

addEventListener("popstate", () => setPlace(read()));

interface GoOptions {
  /** Replaces the entry in the history: for changes that Back should not undo one by one. */
  replace?: boolean;
}

/** Goes to a page of the UI. */
export function go(to: string, options: GoOptions = {}): void {
  const before = location.pathname;
  if (options.replace) {
    history.replaceState(null, "", to);
  } else {
    history.pushState(null, "", to);
  }
  setPlace(read());
  if (location.pathname !== before) {
    scrollTo(0, 0);
  }
}

export type Changes = Record<string, string | readonly string[] | null | undefined>;

function apply(params: URLSearchParams, changes: Changes): URLSearchParams {
  for (const [key, value] of Object.entries(changes)) {
    params.delete(key);
    for (const item of typeof value === "string" ? [value] : (value ?? [])) {
      if (item !== "") {
        params.append(key, item);
      }
    }
  }
  return params;
}

function address(path: string, params: URLSearchParams): string {
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Changes parameters of the current page; `null` removes one. */
export function patch(changes: Changes, options: GoOptions = {}): void {
  const params = apply(new URLSearchParams(location.search), changes);
  go(address(location.pathname, params), options);
}

/** Parameters that every page has in common and links keep. */
const SCOPE = ["from", "to", "server"];

/** The address of a page, with the time range and the servers of the current one. */
export function href(path: string, changes: Changes = {}): string {
  const current = place().params;
  const params = new URLSearchParams();
  for (const key of SCOPE) {
    for (const value of current.getAll(key)) {
      params.append(key, value);
    }
  }
  return address(path, apply(params, changes));
}

/** The parts of a path after `prefix`, decoded; `null` if the path is another one. */
export function match(path: string, prefix: string, parts: number): string[] | null {
  if (!path.startsWith(`${prefix}/`)) {
    return null;
  }
  const found = path.slice(prefix.length + 1).split("/");
  if (found.length !== parts || found.includes("")) {
    return null;
  }
  try {
    return found.map(decodeURIComponent);
  } catch {
    return null;
  }
}

/** Lets plain clicks on links within the UI change the page without loading it again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) {
      return;
    }
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
      return;
    }
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.hasAttribute("download")) {
      return;
    }
    const url = new URL(link.href);
    if (url.origin === location.origin && !url.pathname.startsWith("/api/")) {
      event.preventDefault();
      go(url.pathname + url.search);
    }
  });
}
