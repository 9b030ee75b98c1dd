// The Responses of version 7 of the package `openai`.

import OpenAI from "openai7";
import { suite } from "./responses-suite.mjs";

suite(7, OpenAI);
