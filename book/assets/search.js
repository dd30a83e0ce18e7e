// What Sphinx's search leaves undone. It runs after Sphinx's searchtools.js and the index,
// and before the search begins.
"use strict";

{
  // To show an excerpt, the search page fetches every page it found. A page opened from
  // file:// may fetch nothing, so there it shows titles only.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // An excerpt is of the article's text: Sphinx would begin with the theme's buttons and
  // the page's table of contents.
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const found = anchor && page.getElementById(anchor.slice(1));
    const text = found || page.querySelector("article");
    for (const other of text.querySelectorAll(".headerlink, script, style, summary")) {
      other.remove();
    }
    return text.textContent.replace(/\s+/g, " ").trim();
  };

  // Where a chapter and an exercise match alike, what explains comes before what asks.
  Scorer.score = ([page, , , , score]) => (page.includes("exercises/") ? score - 0.5 : score);

  // An accented letter can be one character or two: "Việt" typed either way is the same.
  const { performSearch } = Search;
  Search.performSearch = (query) => performSearch(query.normalize("NFC"));

  // Sphinx looks words up in plain objects, where "constructor" is always found. The only
  // thing it needs from their prototype is hasOwnProperty, which no lower-case word hits.
  const bare = Object.create(null, {
    hasOwnProperty: { value: Object.prototype.hasOwnProperty },
  });
  Object.setPrototypeOf(Search._index.terms, bare);
  Object.setPrototypeOf(Search._index.titleterms, bare);
}
