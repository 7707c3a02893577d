import { createSignal } from "solid-js";

/** What the hub answers if a request fails: a code for programs, a message for people. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** Further fields, such as the position of an error in a query. */
  readonly fields: Record<string, unknown>;

  constructor(status: number, code: string, message: string, fields: Record<string, unknown> = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

/** The hub did not answer at all. */
export class UnreachableError extends Error {
  constructor(cause: unknown) {
    super("The hub does not answer", { cause });
    this.name = "UnreachableError";
  }
}

const [reachable, setReachable] = createSignal(true);

/** Whether the last request was answered. */
export { reachable };

let csrf = "";
let onUnauthorized: () => void = () => {};

/** The value that writing requests send, from `GET /api/v1/me`. */
export function setCsrf(token: string): void {
  csrf = token;
}

/** What to do when the session has ended. */
export function setUnauthorizedHandler(handler: () => void): void {
  onUnauthorized = handler;
}

type Value = string | number | boolean | null | undefined;
export type Params = Record<string, Value | readonly string[]>;

/** A query string; parameters without a value are left out. */
export function query(params: Params): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (Array.isArray(value)) {
      for (const item of value) {
        search.append(key, item);
      }
    } else if (value !== null && value !== undefined && value !== "") {
      search.set(key, String(value));
    }
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

interface Options {
  signal?: AbortSignal;
  body?: unknown;
  /** A 401 is an answer, not the end of the session: signing in itself. */
  anonymous?: boolean;
}

/** Sends a request and returns the JSON of the answer. */
export async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const response = await answer(method, path, options);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

/** Sends a request whose answer is a file, and returns it with its name. */
export async function requestFile(path: string): Promise<{ name: string; content: Blob }> {
  const response = await answer("POST", path, {});
  const disposition = response.headers.get("Content-Disposition") ?? "";
  const name = /filename="([^"]+)"/.exec(disposition)?.[1] ?? "download";
  return { name, content: await response.blob() };
}

/** Sends a request. An answer with an error is thrown. */
async function answer(method: string, path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") {
    headers["X-Tacho-Csrf"] = csrf;
  }
  const init: RequestInit = { method, headers, cache: "no-store", credentials: "same-origin" };
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) {
    init.signal = options.signal;
  }
  const response = await send(path, init);
  if (!response.ok) {
    const error = await readError(response);
    if (response.status === 401 && !options.anonymous) {
      onUnauthorized();
    }
    throw error;
  }
  return response;
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(path, init);
    // A proxy in front of the hub answers for it.
    setReachable(response.status !== 502 && response.status !== 504);
    return response;
  } catch (error) {
    if (init.signal?.aborted) {
      throw error;
    }
    setReachable(false);
    throw new UnreachableError(error);
  }
}

async function readError(response: Response): Promise<Error> {
  if (response.status === 502 || response.status === 504) {
    return new UnreachableError(response.statusText);
  }
  try {
    const { code, message, ...fields } = (await response.json()) as Record<string, unknown>;
    if (typeof message === "string") {
      return new ApiError(response.status, String(code ?? "error"), message, fields);
    }
  } catch {
    // Not JSON: the status is all there is.
  }
  const text = `The hub answered ${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, "http", text);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
