import { type Accessor, createEffect, createSignal, on, onCleanup, untrack } from "solid-js";
import { isAbort, reachable, UnreachableError } from "../api/client.ts";
import { fetchRecords, type RecordsQuery } from "../api/queries.ts";
import type { LogRecord } from "../api/types.ts";

/** Identity of a record for lists: a line may arrive by the stream and by a page. */
export const recordKey = (record: LogRecord) => `${record.server}\n${record.run}\n${record.seq}`;

/** Records page by page, as far as the reader scrolls. */
export interface RecordPages {
  records: Accessor<LogRecord[]>;
  error: Accessor<Error | undefined>;
  loading: Accessor<boolean>;
  stale: Accessor<boolean>;
  isComplete: Accessor<boolean>;
  more: () => void;
  reload: () => void;
  /** Puts records from the stream in front. */
  prepend: (records: LogRecord[]) => void;
}

/** The list keeps at most so many records in front of a stream. */
const LIVE_MOST = 5000;

export function createRecords(key: Accessor<RecordsQuery>): RecordPages {
  const [records, setRecords] = createSignal<LogRecord[]>([]);
  const [next, setNext] = createSignal<string | null>(null);
  const [error, setError] = createSignal<Error>();
  const [loading, setLoading] = createSignal(true);
  const [stale, setStale] = createSignal(true);
  const [round, setRound] = createSignal(0);
  let controller = new AbortController();

  const load = async (cursor: string | null) => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    setLoading(true);
    setError(undefined);
    try {
      const question = untrack(key);
      const page = await fetchRecords(cursor === null ? question : { ...question, cursor }, signal);
      if (signal.aborted) {
        return;
      }
      setRecords((all) => (cursor === null ? page.records : all.concat(page.records)));
      setNext(page.next);
      setStale(false);
    } catch (problem) {
      if (signal.aborted || isAbort(problem)) {
        return;
      }
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    }
    setLoading(false);
  };

  createEffect(
    on([() => JSON.stringify(key()), round], () => {
      setStale(true);
      void load(null);
    }),
  );
  createEffect(
    on(reachable, (isBack) => {
      if (isBack && untrack(error) instanceof UnreachableError) {
        setRound((n) => n + 1);
      }
    }),
  );
  onCleanup(() => controller.abort());

  return {
    records,
    error,
    loading,
    stale,
    isComplete: () => next() === null,
    more: () => {
      const cursor = next();
      if (cursor !== null && !loading() && !error()) {
        void load(cursor);
      }
    },
    reload: () => setRound((n) => n + 1),
    prepend: (fresh) =>
      setRecords((all) => {
        const known = new Set(all.slice(0, 2000).map(recordKey));
        const unknown = fresh.filter((record) => !known.has(recordKey(record)));
        return unknown.length === 0 ? all : [...unknown, ...all].slice(0, LIVE_MOST);
      }),
  };
}
