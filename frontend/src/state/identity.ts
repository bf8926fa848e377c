/** Who makes a change: the person's name for the history, and this window. */
import type { Signature } from "../api/client";
import { view } from "./view";

export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const windowName = randomName();

export function signature(): Signature {
  return { author: view.get().author.trim() || "anonymous", client: windowName };
}

export function isMine(other: string): boolean {
  return other === windowName;
}
