// The page with assistant-ui.

import { testPage } from "./suite.mjs";

testPage("assistant-ui", "assistant-ui: ");
