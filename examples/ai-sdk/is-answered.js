export function isAnswered({ messages }) {
  const last = messages.at(-1);
  if (last?.role !== "assistant") return false;
  const step = last.parts.slice(last.parts.findLastIndex((part) => part.type === "step-start") + 1);
  const isOfClient = (part) => part.toolCallId !== undefined && !part.providerExecuted;
  const waits = (part) =>
    part.state === "approval-requested" || (isOfClient(part) && ["input-streaming", "input-available"].includes(part.state));
  const hasAnswer = (part) =>
    part.state === "approval-responded" || (isOfClient(part) && ["output-available", "output-error"].includes(part.state));
  return step.some(hasAnswer) && !step.some(waits);
}
