import { createSignal, onMount, Show } from "solid-js";
import { ApiError } from "../api/client.ts";
import type { Credentials } from "../api/queries.ts";
import { Logo } from "../components/Icon.tsx";
import { ErrorBox } from "../components/States.tsx";
import { go, place } from "../lib/router.ts";
import { enterWith, hasExpired } from "../lib/session.ts";

type Way = "password" | "token";

/** After signing in the reader is where they wanted to be. */
function leaveSignIn(): void {
  if (place().path === "/sign-in") {
    go("/", { replace: true });
  }
}

function better(error: unknown): Error {
  if (error instanceof ApiError && error.status === 401) {
    return new Error(error.message || "Wrong user, password or token");
  }
  return error instanceof Error ? error : new Error(String(error));
}

/** Signs in with user and password, a token, or the one-time link of the first start. */
export function SignIn() {
  const [way, setWay] = createSignal<Way>("password");
  const [isBusy, setBusy] = createSignal(false);
  const [error, setError] = createSignal<Error>();
  const [user, setUser] = createSignal("");
  const [password, setPassword] = createSignal("");
  const [token, setToken] = createSignal("");

  const enter = async (credentials: Credentials) => {
    setBusy(true);
    setError(undefined);
    try {
      await enterWith(credentials);
      leaveSignIn();
    } catch (problem) {
      setError(better(problem));
    }
    setBusy(false);
  };
  onMount(() => {
    document.title = "Sign in · Tachograph";
    if (place().path === "/sign-in" && location.hash.length > 1) {
      const link = decodeURIComponent(location.hash.slice(1));
      // The token must not stay in the history.
      history.replaceState(null, "", "/sign-in");
      setWay("token");
      void enter({ token: link });
    }
  });
  const submit = (event: Event) => {
    event.preventDefault();
    void enter(
      way() === "token" ? { token: token().trim() } : { user: user(), password: password() },
    );
  };
  const isComplete = () =>
    way() === "token" ? token().trim() !== "" : user() !== "" && password() !== "";
  return (
    <main class="sign-in">
      <div class="sign-in-card">
        <Logo size={30} />
        <h1>Sign in to Tachograph</h1>
        <Show when={hasExpired() && !error()}>
          <p class="second" role="status">
            Your session has ended. Sign in to continue where you were.
          </p>
        </Show>
        <Ways way={way()} set={setWay} />
        <form onSubmit={submit}>
          <Show
            when={way() === "token"}
            fallback={
              <Password user={user()} setUser={setUser} value={password()} set={setPassword} />
            }
          >
            <Field
              label="Token"
              value={token()}
              set={setToken}
              autocomplete="off"
              isSecret
              hasFocus
            />
          </Show>
          <Show when={error()}>{(problem) => <ErrorBox error={problem()} />}</Show>
          <button type="submit" class="button primary" disabled={isBusy() || !isComplete()}>
            {isBusy() ? "Signing in…" : "Sign in"}
          </button>
        </form>
      </div>
    </main>
  );
}

function Ways(props: { way: Way; set: (way: Way) => void }) {
  return (
    <div class="segments wide">
      <button
        type="button"
        aria-pressed={props.way === "password"}
        onClick={() => props.set("password")}
      >
        Password
      </button>
      <button type="button" aria-pressed={props.way === "token"} onClick={() => props.set("token")}>
        Token
      </button>
    </div>
  );
}

interface PasswordProps {
  user: string;
  setUser: (value: string) => void;
  value: string;
  set: (value: string) => void;
}

function Password(props: PasswordProps) {
  return (
    <>
      <Field label="User" value={props.user} set={props.setUser} autocomplete="username" hasFocus />
      <Field
        label="Password"
        value={props.value}
        set={props.set}
        autocomplete="current-password"
        isSecret
      />
    </>
  );
}

interface FieldProps {
  label: string;
  value: string;
  set: (value: string) => void;
  autocomplete: "username" | "current-password" | "off";
  isSecret?: boolean;
  hasFocus?: boolean;
}

function Field(props: FieldProps) {
  let input: HTMLInputElement | undefined;
  onMount(() => props.hasFocus && input?.focus());
  return (
    <label>
      <span class="label">{props.label}</span>
      <input
        ref={input}
        class="input"
        type={props.isSecret ? "password" : "text"}
        autocomplete={props.autocomplete}
        autocapitalize="off"
        spellcheck={false}
        value={props.value}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </label>
  );
}
