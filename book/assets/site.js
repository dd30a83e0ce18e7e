// What the theme leaves undone, on every page.
"use strict";

// Light or dark as the reader's system is. The theme settles this only after the page is
// drawn, so that a first visit flashes.
{
  const look = document.documentElement.dataset;
  look.mode ||= "auto";
  look.theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// Paper is white: a page is printed in light colours, whatever it is read in.
{
  const look = document.documentElement.dataset;
  let before;
  addEventListener("beforeprint", () => {
    before = look.theme;
    look.theme = "light";
  });
  addEventListener("afterprint", () => {
    look.theme = before;
  });
}

document.addEventListener("DOMContentLoaded", () => {
  // The side bar's buttons that fold a chapter's pages have no name.
  for (const button of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    button.setAttribute("aria-label", button.closest("li").querySelector("a").textContent);
  }
  // A notebook is there to be kept: shown as text in a tab of its own, it helps nobody.
  for (const link of document.querySelectorAll(".btn-download-notebook-button")) {
    link.setAttribute("download", "");
  }
  // The bibliography is marked as a list whose entries are not list items, so a screen
  // reader finds an empty list.
  for (const entry of document.querySelectorAll(".citation-list > .citation")) {
    entry.setAttribute("role", "listitem");
  }
});
