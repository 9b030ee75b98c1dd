import { defineConfig } from "vite";

// The service is part of the page's own origin. In production your server forwards the requests, adds the API key, and
// checks which sessions belong to the user.
const target = process.env.TWOSTEP_URL ?? "http://127.0.0.1:8080";

export default defineConfig({ server: { host: "127.0.0.1", proxy: { "/ai-sdk": { target, changeOrigin: true } } } });
