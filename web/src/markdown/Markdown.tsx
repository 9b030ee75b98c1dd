/** Markdown of the agent. While it streams, only its last block is parsed again. */

import { Component, createRef } from "preact";
import { t } from "../text/text";
import { copyText } from "../shell/copy";
import { blocksOf } from "./blocks";
import { htmlOf } from "./html";

interface Props {
  text: string;
  /** True while text is appended. */
  isOpen?: boolean;
}

export function Markdown({ text, isOpen = false }: Props) {
  const blocks = isOpen ? blocksOf(text) : [text];
  return (
    <div class="markdown" dir="auto">
      {blocks.map((source, index) => (
        <Block key={index} source={source} isOpen={isOpen && index === blocks.length - 1} />
      ))}
    </div>
  );
}

interface BlockProps {
  source: string;
  isOpen: boolean;
}

class Block extends Component<BlockProps> {
  private readonly element = createRef<HTMLDivElement>();

  override shouldComponentUpdate(next: BlockProps) {
    return next.source !== this.props.source || next.isOpen !== this.props.isOpen;
  }

  override componentDidMount() {
    this.finish();
  }

  override componentDidUpdate() {
    this.finish();
  }

  /** Adds to complete code its colors and a button that copies it. */
  private finish() {
    if (this.props.isOpen) return;
    for (const block of this.element.current?.querySelectorAll("pre") ?? []) {
      if (block.nextElementSibling?.className === "copy") continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = t("copy");
      button.onclick = () => void copyText(block.textContent ?? "");
      block.after(button);
      const code = block.querySelector<HTMLElement>("code[class]");
      if (code === null) continue;
      // Code stays plain if the highlighter cannot be loaded, for example while the service restarts.
      void import("./highlight").then(
        ({ highlight }) => highlight(code),
        () => undefined,
      );
    }
  }

  override render({ source }: BlockProps) {
    return <div ref={this.element} dangerouslySetInnerHTML={{ __html: htmlOf(source) }} />;
  }
}
