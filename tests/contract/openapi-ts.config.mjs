// The settings of @hey-api/openapi-ts.

export default {
  output: { path: "generated/hey-api", tsConfigPath: "./tsconfig.json", importFileExtension: ".js" },
  logs: { level: "warn", file: false },
};
