import { createContext, useContext } from "solid-js";
import { fetchAlerts, fetchServers } from "../api/queries.ts";
import type { Alert, Server } from "../api/types.ts";
import { createQuery, type Query } from "./resource.ts";

/** The state of servers and open alerts, which every page shows somewhere. */
export interface Watch {
  query: Query<Server[]>;
  alerts: Query<Alert[]>;
}

const EVERY_MS = 5000;

export function createWatch(): Watch {
  const every = () => EVERY_MS;
  return {
    query: createQuery(
      () => "servers",
      (_, signal) => fetchServers(signal),
      { every },
    ),
    alerts: createQuery(
      () => "open",
      (_, signal) => fetchAlerts("open", signal),
      { every },
    ),
  };
}

export const WatchContext = createContext<Watch>();

export function useServers(): Watch {
  const watch = useContext(WatchContext);
  if (!watch) {
    throw new Error("used outside of the shell");
  }
  return watch;
}
