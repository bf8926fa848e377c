/** A value that components and the board watch. */
import { useSyncExternalStore } from "react";

export interface Store<T> {
  get(): T;
  set(change: Partial<T> | ((now: T) => Partial<T>)): void;
  watch(listener: () => void): () => void;
}

/** @param settled what becomes of a value before anyone sees it. */
export function createStore<T extends object>(
  first: T,
  settled: (value: T, before: T) => T = (value) => value,
): Store<T> {
  let value = first;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(change) {
      const part = typeof change === "function" ? change(value) : change;
      value = settled({ ...value, ...part }, value);
      for (const listener of [...listeners]) listener();
    },
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The part of a store that `pick` names; renders again only when that part is another. */
export function useStore<T extends object, P>(store: Store<T>, pick: (value: T) => P): P {
  return useSyncExternalStore(store.watch, () => pick(store.get()));
}
