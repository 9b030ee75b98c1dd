/** Work that is done once per frame, however many events arrive. */

/** Returns a function that calls `work` in the next frame. A hidden tab has no frames. */
export function perFrame(work: () => void): () => void {
  let isPlanned = false;
  const run = () => {
    isPlanned = false;
    work();
  };
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    if (document.hidden) setTimeout(run, 200);
    else requestAnimationFrame(run);
  };
}
