/** The feedback of the user on a reply: a rating and a comment. */

import { useComputed } from "@preact/signals";
import { useState } from "preact/hooks";
import { type Feedback, type Rating, feedback, giveFeedback } from "../state/feedback";
import { t } from "../text/text";

const ratings = [
  ["up", "rateUp"],
  ["down", "rateDown"],
] as const;

/** A service stores comments of at most this many characters. */
const maxComment = 4000;

export function FeedbackBar({ messageId }: { messageId: string }) {
  const given = useComputed(() => feedback.value.get(messageId)).value;
  const [isWriting, setWriting] = useState(false);
  const rate = (rating: Rating) => {
    const isSame = given?.rating === rating;
    void giveFeedback(messageId, isSame ? undefined : { rating, text: given?.text });
  };
  return (
    <footer class={given === undefined ? "feedback" : "feedback feedback-given"}>
      <div class="row">
        {ratings.map(([rating, name]) => (
          <button
            key={rating}
            type="button"
            class="quiet"
            aria-pressed={given?.rating === rating}
            aria-label={t(name)}
            title={t(name)}
            onClick={() => rate(rating)}
          >
            <Thumb rating={rating} />
          </button>
        ))}
        {given !== undefined && !isWriting && (
          <button type="button" class="quiet" onClick={() => setWriting(true)}>
            {t(given.text === undefined ? "addComment" : "changeComment")}
          </button>
        )}
      </div>
      {given?.text !== undefined && !isWriting && (
        <p class="plain note" dir="auto">
          {given.text}
        </p>
      )}
      {given !== undefined && isWriting && (
        <CommentForm messageId={messageId} given={given} close={() => setWriting(false)} />
      )}
    </footer>
  );
}

function Thumb({ rating }: { rating: Rating }) {
  return (
    <svg class={`thumb thumb-${rating}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d="M7 11v9H3v-9zm0 0 4-8a2 2 0 0 1 2 2v4h5.5a2 2 0 0 1 2 2.4l-1.3 7a2 2 0 0 1-2 1.6H7" />
    </svg>
  );
}

interface FormProps {
  messageId: string;
  given: Feedback;
  close: () => void;
}

function CommentForm({ messageId, given, close }: FormProps) {
  const [text, setText] = useState(given.text ?? "");
  const save = async () => {
    if (await giveFeedback(messageId, { ...given, text: text.trim() || undefined })) close();
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      <label>
        {t("comment")}
        <textarea
          rows={2}
          dir="auto"
          maxLength={maxComment}
          value={text}
          autoFocus
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button type="submit" class="primary">
          {t("save")}
        </button>
        <button type="button" onClick={close}>
          {t("cancel")}
        </button>
      </div>
    </form>
  );
}
