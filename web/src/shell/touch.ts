/** Devices with a touch screen, which have a keyboard only on the screen. */

/** Reports whether the main pointer of the device is a finger. */
export const hasTouch = (): boolean => matchMedia("(pointer: coarse)").matches;
