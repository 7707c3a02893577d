import { render } from "solid-js/web";
import { App } from "./app.tsx";
import { listen } from "./lib/keyboard.ts";
import { followLinks } from "./lib/router.ts";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/controls.css";
import "./styles/panels.css";
import "./styles/search.css";
import "./styles/record.css";
import "./styles/connection.css";
import "./styles/pages.css";

const root = document.getElementById("app");
if (!root) {
  throw new Error("index.html has no #app");
}
followLinks();
listen();
render(() => <App />, root);
