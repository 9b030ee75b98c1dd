/** Components that are loaded when they are first shown. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { report } from "../state/access";

/** A component from another script. Nothing is shown until it is loaded. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  return function Lazy(props: Props) {
    const [, show] = useState(loaded !== undefined);
    useEffect(() => {
      if (loaded === undefined) void load().then((component) => ((loaded = component), show(true)), report);
    }, []);
    const Component = loaded;
    return Component === undefined ? null : <Component {...props} />;
  };
}
