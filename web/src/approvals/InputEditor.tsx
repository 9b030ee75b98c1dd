/** The editor of a call's input: a field for each member, or the whole input as JSON. */

import { useSignal } from "@preact/signals";
import { t } from "../text/text";

type Input = Record<string, unknown>;

/** The input as the user has changed it: `input` is undefined while it is not valid, and `error` says why. */
export interface Edited {
  input: Input | undefined;
  error: string | undefined;
}

/** An input with more members is edited as JSON. */
const maxFields = 12;

/** The text of a field: a text as it is, anything else as JSON. */
const textOf = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Parses a JSON object; undefined if the text is none. */
export function parsed(text: string): Input | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Input) : undefined;
  } catch {
    return undefined;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

interface Props {
  input: Input;
  change: (edited: Edited) => void;
}

export function InputEditor({ input, change }: Props) {
  const count = Object.keys(input).length;
  const mayHaveFields = count > 0 && count <= maxFields;
  const showsFields = useSignal(mayHaveFields);
  const value = useSignal(input);
  const set = (edited: Edited) => {
    if (edited.input !== undefined) value.value = edited.input;
    change(edited);
  };
  return (
    <>
      {showsFields.value ? <Fields input={value.peek()} change={set} /> : <Json input={value.peek()} change={set} />}
      {mayHaveFields && (
        <div class="row">
          <button
            type="button"
            class="quiet"
            onClick={() => {
              // What is not valid yet is left behind.
              change({ input: value.value, error: undefined });
              showsFields.value = !showsFields.value;
            }}
          >
            {t(showsFields.value ? "editJson" : "editFields")}
          </button>
        </div>
      )}
    </>
  );
}

function Json({ input, change }: Props) {
  const text = useSignal(JSON.stringify(input, null, 2));
  const edited = parsed(text.value);
  return (
    <label>
      {t("input")}
      <Area
        text={text.value}
        isInvalid={edited === undefined}
        write={(written) => {
          text.value = written;
          const object = parsed(written);
          change({ input: object, error: object === undefined ? t("invalidJson") : undefined });
        }}
      />
    </label>
  );
}

/** Members that are no texts stay what they are: their fields have JSON. */
function Fields({ input, change }: Props) {
  const texts = useSignal(Object.fromEntries(Object.entries(input).map(([name, value]) => [name, textOf(value)])));
  const isValid = (name: string, text: string) => typeof input[name] === "string" || isJson(text);
  const write = (name: string, text: string) => {
    texts.value = { ...texts.value, [name]: text };
    const invalid = Object.entries(texts.value).find(([member, written]) => !isValid(member, written));
    if (invalid !== undefined) return change({ input: undefined, error: t("invalidMember", invalid[0]) });
    const edited = Object.entries(texts.value).map(([member, written]) => [
      member,
      typeof input[member] === "string" ? written : (JSON.parse(written) as unknown),
    ]);
    change({ input: Object.fromEntries(edited) as Input, error: undefined });
  };
  return (
    <>
      {Object.entries(texts.value).map(([name, text]) => (
        <label key={name}>
          <code>{name}</code>
          <Area text={text} isInvalid={!isValid(name, text)} write={(written) => write(name, written)} />
        </label>
      ))}
    </>
  );
}

interface AreaProps {
  text: string;
  isInvalid: boolean;
  write: (text: string) => void;
}

/** The keyboard of a phone must not correct a command or a path. */
function Area({ text, isInvalid, write }: AreaProps) {
  return (
    <textarea
      class="code"
      rows={Math.min(8, text.split("\n").length)}
      dir="ltr"
      spellcheck={false}
      autocapitalize="off"
      autocomplete="off"
      autocorrect="off"
      value={text}
      aria-invalid={isInvalid}
      onInput={(event) => write(event.currentTarget.value)}
    />
  );
}
