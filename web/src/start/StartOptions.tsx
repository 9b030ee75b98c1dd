/** The settings of a new session. Empty ones are those of the agent or of the service. */

import type { Signal } from "@preact/signals";
import type { CreateSession } from "@twostep/client";
import { named, t } from "../text/text";
import type { Catalog } from "./catalog";

export interface Choice {
  agent: string;
  model: string;
  mode: string;
  workspace: string;
  /** The chosen tools; undefined for the default. */
  tools: string[] | undefined;
}

export const defaults: Choice = { agent: "", model: "", mode: "", workspace: "", tools: undefined };

export function requestOf({ agent, model, mode, workspace, tools }: Choice): CreateSession {
  return {
    ...(agent && { agent }),
    ...(model && { model }),
    ...(mode && { permission_mode: mode as NonNullable<CreateSession["permission_mode"]> }),
    ...(workspace.trim() && { workspace: workspace.trim() }),
    ...(tools && { tools }),
  };
}

interface Props {
  catalog: Catalog;
  chosen: Signal<Choice>;
}

export function StartOptions({ catalog, chosen }: Props) {
  const { agents, models, tools, mayBypass } = catalog;
  const set = (changes: Partial<Choice>) => {
    chosen.value = { ...chosen.value, ...changes };
  };
  const main = models.find((model) => model.default)?.id ?? "";
  const modes = ["default", "accept_edits", "plan", ...(mayBypass ? ["bypass"] : [])];
  const { agent, model, mode, workspace } = chosen.value;
  return (
    <details class="options">
      <summary>{t("options")}</summary>
      <div class="fields">
        <label>
          {t("agentLabel")}
          <select value={agent} onChange={(event) => set({ agent: event.currentTarget.value })}>
            <option value="">{t("noAgent")}</option>
            {agents.map(({ name, description }) => (
              <option key={name} value={name}>
                {description === undefined ? name : `${name}: ${description}`}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("model")}
          <select value={model} onChange={(event) => set({ model: event.currentTarget.value })}>
            <option value="">{t("modelDefault", main)}</option>
            {models
              .filter(({ available }) => available !== false)
              .map(({ id }) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
          </select>
        </label>
        <label>
          {t("mode")}
          <select value={mode} onChange={(event) => set({ mode: event.currentTarget.value })}>
            <option value="">{t("modeDefault")}</option>
            {modes.map((one) => (
              <option key={one} value={one}>
                {named("mode_", one)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("workspace")}
          <input
            type="text"
            value={workspace}
            placeholder={t("workspaceHint")}
            onInput={(event) => set({ workspace: event.currentTarget.value })}
          />
        </label>
      </div>
      {tools.length > 0 && <ToolChoice catalog={catalog} chosen={chosen} set={set} />}
      <Servers catalog={catalog} />
    </details>
  );
}

function ToolChoice({ catalog: { tools }, chosen, set }: Props & { set: (changes: Partial<Choice>) => void }) {
  const names = chosen.value.tools;
  const toggle = (name: string, isOn: boolean) => {
    const others = (names ?? []).filter((one) => one !== name);
    set({ tools: isOn ? [...others, name] : others });
  };
  return (
    <fieldset>
      <legend>{t("tools")}</legend>
      <label class="choice">
        <input type="radio" name="tools" checked={names === undefined} onChange={() => set({ tools: undefined })} />
        {t("toolsDefault")}
      </label>
      <label class="choice">
        <input
          type="radio"
          name="tools"
          checked={names !== undefined}
          onChange={() => set({ tools: tools.filter((tool) => tool.default).map(({ name }) => name) })}
        />
        {t("toolsChosen")}
      </label>
      {names !== undefined && (
        <div class="tool-choice">
          {tools.map(({ name, description }) => (
            <label key={name} class="choice" title={description}>
              <input
                type="checkbox"
                checked={names.includes(name)}
                onChange={(event) => toggle(name, event.currentTarget.checked)}
              />
              <code>{name}</code>
            </label>
          ))}
        </div>
      )}
    </fieldset>
  );
}

const serverTexts = {
  connected: "serverTools",
  failing: "serverFailing",
  disconnected: "serverDisconnected",
} as const;

function Servers({ catalog: { servers } }: { catalog: Catalog }) {
  if (servers.length === 0) return null;
  return (
    <section aria-label={t("servers")}>
      <h2>{t("servers")}</h2>
      <ul>
        {servers.map(({ name, status, tools }) => (
          <li key={name}>{t(serverTexts[status], name, tools)}</li>
        ))}
      </ul>
    </section>
  );
}
