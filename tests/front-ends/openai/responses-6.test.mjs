// The Responses of version 6 of the package `openai`.

import OpenAI from "openai6";
import { suite } from "./responses-suite.mjs";

suite(6, OpenAI);
