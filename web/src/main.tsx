/** The entry of the page. */

import { render } from "preact";
import { App } from "./shell/App";
import "./state/changes";
import "./state/subAgents";
import "./state/theme";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/conversation.css";
import "./styles/inspector.css";

const page = document.getElementById("page");
if (page !== null) render(<App />, page);
