import { createSignal } from "solid-js";
import { ApiError, setCsrf, setUnauthorizedHandler } from "../api/client.ts";
import { type Credentials, fetchMe, signIn, signOut } from "../api/queries.ts";
import type { Me } from "../api/types.ts";

/** Who is signed in: `undefined` is not known yet, `null`: no account. */
const [me, setMe] = createSignal<Me | null>();

export { me };

const [hasExpired, setExpired] = createSignal(false);

/** Whether the session ended while a page was open. */
export { hasExpired };

function enter(account: Me): void {
  setCsrf(account.csrf);
  setExpired(false);
  setMe(account);
}

setUnauthorizedHandler(() => {
  if (me()) {
    setExpired(true);
  }
  setMe(null);
});

/** Asks the hub for the account of the cookie. Throws if the hub does not answer. */
export async function resume(): Promise<void> {
  try {
    enter(await fetchMe(true));
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
      setMe(null);
      return;
    }
    throw error;
  }
}

export async function enterWith(credentials: Credentials): Promise<void> {
  await signIn(credentials);
  enter(await fetchMe(true));
}

export async function leave(): Promise<void> {
  try {
    await signOut();
  } finally {
    setExpired(false);
    setMe(null);
  }
}

/** Whether the account may see statements, and take evidence with it. */
export const mayExport = () => (me()?.roles ?? []).includes("auditor");

/** Whether the account may search records; one that only administrates may not. */
export const maySearch = () =>
  (me()?.roles ?? []).some((role) => role === "viewer" || role === "auditor");
