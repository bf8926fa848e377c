/** Line icons, drawn on a grid of 16. */
const PATHS = {
  back: "M10 3 5 8l5 5",
  undo: "M6 3 3 6l3 3M3 6h6a4 4 0 0 1 0 8H6",
  redo: "M10 3l3 3-3 3M13 6H7a4 4 0 0 0 0 8h3",
  add: "M8 3v10M3 8h10",
  branch: "M5 3v10M5 9c0-3 6-1 6-4V3M3 5l2-2 2 2M9 5l2-2 2 2",
  export: "M8 10V2M5 5l3-3 3 3M3 9v4h10V9",
  import: "M8 2v8M5 7l3 3 3-3M3 11v2h10v-2",
  help: "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1V10M8 12.5v.2",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M12.8 9.5A5.3 5.3 0 0 1 6.5 3.2a5.3 5.3 0 1 0 6.3 6.3z",
  select: "M4 2.5l8.5 6.2-4 .6L6.7 13z",
  hand: "M8 2v12M2 8h12M6 4l2-2 2 2M6 12l2 2 2-2M4 6L2 8l2 2M12 6l2 2-2 2",
  lasso:
    "M8 3c3.3 0 6 1.6 6 3.8S11.300 10.500 8 10.500 2 8.900 2 6.800 4.700 3 8 3zM5 10c-1.500.500-1.500 2.500 0 2.500 1 0 1 1.500 0 2",
  ruler: "M2 11 11 2l3 3-9 9zM5 8l1.500 1.500M7 6l1.500 1.500M9 4l1.500 1.500",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  plus: "M8 4v8M4 8h8",
  minus: "M4 8h8",
  lock: "M4 7.500h8V13H4zM5.700 7.500V5a2.300 2.300 0 0 1 4.600 0v2.500",
  unlock: "M4 7.500h8V13H4zM5.700 7.500V5a2.300 2.300 0 0 1 4.400-.900",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.500l3.200 3L13 4.500",
  more: "M3.500 8h.1M8 8h.1M12.500 8h.1",
  eye: "M1.500 8S4 3.500 8 3.500 14.500 8 14.500 8 12 12.500 8 12.500 1.500 8 1.500 8zM8 6.300a1.700 1.700 0 1 0 0 3.400 1.700 1.700 0 0 0 0-3.400z",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM10.500 10.500 14 14",
  warning: "M8 2.500 14.500 13.500h-13zM8 6.500v3M8 11.500v.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
