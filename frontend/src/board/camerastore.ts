/** The board's camera, for what lies around the board: scale bar, zoom figure. */
import { createStore } from "../state/store";
import type { Camera } from "./camera";

export const cameraStore = createStore<{
  camera: Camera;
  pointer_mm: readonly [number, number] | null;
}>({
  camera: { x_mm: -150, y_mm: -105, px_per_mm: 3 },
  pointer_mm: null,
});
