/** What this window shows and how; remembered in the browser, never part of the project. */
import { createStore } from "./store";

export type Tool = "select" | "hand" | "lasso" | "ruler";
export type Tab = "piece" | "joins" | "solve" | "versions" | "history";
export type Theme = "dark" | "light";
export type Snap = 0 | 15 | 45;

export interface View {
  theme: Theme;
  tool: Tool;
  tab: Tab;
  snap_deg: Snap;
  outlines: boolean;
  overlaps: boolean;
  gaps: boolean;
  keypoints: boolean;
  rulers: boolean;
  tray: boolean;
  side: boolean;
  author: string;
  toured: boolean;
}

const KEY = "reassembly.view";
const FIRST: View = {
  theme: matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark",
  tool: "select",
  tab: "solve",
  snap_deg: 0,
  outlines: false,
  overlaps: true,
  gaps: false,
  keypoints: false,
  rulers: true,
  tray: true,
  side: true,
  author: "",
  toured: false,
};

function remembered(): View {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { ...FIRST, ...(stored as Partial<View>), tool: "select" };
  } catch {
    return FIRST;
  }
}

export const view = createStore<View>(remembered());

view.watch(() => {
  try {
    localStorage.setItem(KEY, JSON.stringify(view.get()));
  } catch {
    return;
  }
});
