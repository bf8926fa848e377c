/** Files and whole folders out of a drop or a file dialog, with their paths, in order of these. */
import { byName } from "./words";

export interface Dropped {
  file: File;
  path: string;
}

const HIDDEN = /(^|\/)(\.|__MACOSX|Thumbs\.db)/;

export async function filesOfDrop(transfer: DataTransfer): Promise<Dropped[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry());
  const plain = [...transfer.files];
  if (!entries.some((entry) => entry))
    return visible(plain.map((file) => ({ file, path: file.name })));
  const found: Dropped[] = [];
  for (const entry of entries) if (entry) await walk(entry, "", found);
  return visible(found);
}

export function filesOfInput(list: FileList | null): Dropped[] {
  return visible(
    [...(list ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name })),
  );
}

function visible(files: Dropped[]): Dropped[] {
  return files.filter(({ path }) => !HIDDEN.test(path)).sort((a, b) => byName(a.path, b.path));
}

async function walk(entry: FileSystemEntry, above: string, found: Dropped[]): Promise<void> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) =>
      (entry as FileSystemFileEntry).file(done, fail),
    );
    found.push({ file, path });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) =>
      reader.readEntries(done, fail),
    );
    if (!some.length) return;
    for (const one of some) await walk(one, `${path}/`, found);
  }
}
