import {
  type Accessor,
  createEffect,
  createMemo,
  createSignal,
  on,
  onCleanup,
  untrack,
} from "solid-js";
import { ApiError, isAbort } from "../api/client.ts";

/** The answer to a question that changes: the newest data, and what is going on. */
export interface Query<T> {
  /** The last answer; it stays while the next one is loaded. */
  data: Accessor<T | undefined>;
  error: Accessor<Error | undefined>;
  loading: Accessor<boolean>;
  /** `data` answers an earlier question than the current one. */
  stale: Accessor<boolean>;
  /** Asks again, now. */
  reload: () => void;
}

interface Options {
  /** Asks again after this many ms while the page is visible. */
  every?: Accessor<number | null>;
}

/** How many questions of the page have no answer yet. */
const [unanswered, setUnanswered] = createSignal(0);

export { unanswered };

const RETRY_FIRST_MS = 1000;
const RETRY_MOST_MS = 10_000;

/**
 * Asks whenever `key` changes and aborts the previous request. `null` asks nothing. If the hub does
 * not answer, or fails, it is asked again with growing pauses.
 */
export function createQuery<K, T>(
  key: Accessor<K | null>,
  load: (key: K, signal: AbortSignal) => Promise<T>,
  options: Options = {},
): Query<T> {
  const [data, setData] = createSignal<T | undefined>(undefined, { equals: false });
  const [error, setError] = createSignal<Error>();
  const [loading, setLoading] = createSignal(true);
  const [stale, setStale] = createSignal(true);
  const [round, setRound] = createSignal(0);

  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = RETRY_FIRST_MS;
  let asked = "";
  let controller: AbortController | undefined;
  const again = () => setRound((n) => n + 1);
  const later = (ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(() => whenVisible(again), ms);
  };

  const ask = async (question: K, signal: AbortSignal) => {
    try {
      const answer = await load(question, signal);
      if (signal.aborted) {
        return;
      }
      pause = RETRY_FIRST_MS;
      setData(() => answer);
      setError(undefined);
      setStale(false);
      const every = untrack(() => options.every?.() ?? null);
      if (every !== null) {
        later(every);
      }
    } catch (problem) {
      if (signal.aborted || isAbort(problem)) {
        return;
      }
      setError(problem instanceof Error ? problem : new Error(String(problem)));
      // What is wrong with the question itself stays wrong.
      const isTransient = problem instanceof ApiError ? problem.status >= 500 : true;
      if (isTransient) {
        later(pause);
        pause = Math.min(pause * 2, RETRY_MOST_MS);
      }
    }
    setLoading(false);
  };

  createEffect(
    on([() => JSON.stringify(key()), round], ([text]) => {
      clearTimeout(timer);
      controller?.abort();
      const question = untrack(key);
      if (question === null) {
        setLoading(false);
        return;
      }
      if (text !== asked) {
        asked = text;
        setStale(true);
      }
      setLoading(true);
      controller = new AbortController();
      void ask(question, controller.signal);
    }),
  );
  const isUnanswered = createMemo(() => loading() && stale());
  createEffect(() => {
    if (isUnanswered()) {
      setUnanswered((count) => count + 1);
      onCleanup(() => setUnanswered((count) => count - 1));
    }
  });
  onCleanup(() => {
    clearTimeout(timer);
    controller?.abort();
  });
  return { data, error, loading, stale, reload: again };
}

/** Runs now, or when the reader comes back to this tab. */
function whenVisible(action: () => void): void {
  if (document.visibilityState === "visible") {
    action();
    return;
  }
  const once = () => {
    if (document.visibilityState === "visible") {
      document.removeEventListener("visibilitychange", once);
      action();
    }
  };
  document.addEventListener("visibilitychange", once);
}
