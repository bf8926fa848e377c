/** Where the licences of what others wrote of this page can be read. */
export function LicenceLink() {
  return (
    <a href="./third-party.txt" target="_blank" rel="noreferrer">
      licences of the page’s parts
    </a>
  );
}
