import { type Params, query, request, requestFile } from "./client.ts";
import type {
  Activity,
  Alert,
  AlertState,
  Dimension,
  Facets,
  Histogram,
  Me,
  Measure,
  Overview,
  RecordAnswer,
  RecordsPage,
  Server,
  Storage,
  Top,
} from "./types.ts";

/** Time range, servers and query: what most questions have in common. */
export interface Scope extends Params {
  from: string;
  to: string;
  server: readonly string[];
  q?: string;
}

const V1 = "/api/v1";

function get<T>(path: string, params: Params, signal: AbortSignal): Promise<T> {
  return request<T>("GET", `${V1}${path}${query(params)}`, { signal });
}

export const fetchMe = (anonymous = false) => request<Me>("GET", `${V1}/me`, { anonymous });

export type Credentials = { token: string } | { user: string; password: string };

export const signIn = (body: Credentials) =>
  request<{ user: string; role: string }>("POST", `${V1}/session`, { body, anonymous: true });

export const signOut = () => request<void>("DELETE", `${V1}/session`);

export const fetchServers = (signal: AbortSignal) => get<Server[]>("/servers", {}, signal);

export const fetchActivity = (server: string, signal: AbortSignal) =>
  get<Activity>(`/servers/${encodeURIComponent(server)}/activity`, {}, signal);

export const fetchStorage = (signal: AbortSignal) => get<Storage>("/storage", {}, signal);

export const fetchOverview = (scope: Scope, signal: AbortSignal) =>
  get<Overview>("/overview", scope, signal);

export interface RecordsQuery extends Scope {
  order: "asc" | "desc";
  limit: number;
  cursor?: string;
}

export const fetchRecords = (scope: RecordsQuery, signal: AbortSignal) =>
  get<RecordsPage>("/records", scope, signal);

export const fetchHistogram = (scope: Scope & { buckets: number }, signal: AbortSignal) =>
  get<Histogram>("/histogram", scope, signal);

export const fetchFacets = (
  scope: Scope & { fields: string; limit: number },
  signal: AbortSignal,
) => get<Facets>("/facets", scope, signal);

export interface TopQuery extends Scope {
  by: Dimension;
  measure: Measure;
  limit: number;
}

export const fetchTop = (scope: TopQuery, signal: AbortSignal) => get<Top>("/top", scope, signal);

export const fetchRecord = (
  server: string,
  seq: string,
  generation: string | null,
  signal: AbortSignal,
) =>
  get<RecordAnswer>(
    `/records/${encodeURIComponent(server)}/${encodeURIComponent(seq)}`,
    { generation },
    signal,
  );

export const fetchAlerts = (state: AlertState | null, signal: AbortSignal) =>
  get<Alert[]>("/alerts", { state }, signal);

export const acknowledgeAlert = (id: number | string, note: string) =>
  request<Alert | undefined>("POST", `${V1}/alerts/${encodeURIComponent(id)}/acknowledge`, {
    body: { note },
  });

/** An evidence bundle of what a search finds. */
export const exportEvidence = (scope: Scope) => requestFile(`${V1}/export${query(scope)}`);

/** The address of the live stream. */
export const tailUrl = (server: readonly string[], q: string) =>
  `${V1}/tail${query({ server, q })}`;
