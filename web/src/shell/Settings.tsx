/** The language, the colors, the keyboard shortcuts and the key of this tab. */

import { key, useKey } from "../state/access";
import { stored } from "../state/stored";
import { type Theme, theme, themes } from "../state/theme";
import { type Language, language, languages, named, t } from "../text/text";
import { Dialog } from "./Dialog";
import { shortcuts } from "./shortcuts";

const names: Record<Language, string> = { en: "English", de: "Deutsch" };

export function Settings({ close }: { close: () => void }) {
  return (
    <Dialog title={t("settings")} close={close}>
      <label>
        {t("language")}
        <select
          value={language.value}
          onChange={(event) => {
            language.value = event.currentTarget.value as Language;
            stored.set("language", language.value);
          }}
        >
          {languages.map((one) => (
            <option key={one} value={one} lang={one}>
              {names[one]}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t("theme")}
        <select
          value={theme.value}
          onChange={(event) => {
            theme.value = event.currentTarget.value as Theme;
            stored.set("theme", theme.value);
          }}
        >
          {themes.map((one) => (
            <option key={one} value={one}>
              {named("theme_", one)}
            </option>
          ))}
        </select>
      </label>
      <h3>{t("help")}</h3>
      <dl class="shortcuts">
        {shortcuts.map(({ keys, text }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{t(text)}</dd>
          </div>
        ))}
      </dl>
      <p class="note">
        <a href="./licenses.txt">{t("licenses")}</a>
      </p>
      {key.value !== undefined && (
        <button
          type="button"
          onClick={() => {
            useKey(undefined);
            location.reload();
          }}
        >
          {t("signOut")}
        </button>
      )}
    </Dialog>
  );
}
