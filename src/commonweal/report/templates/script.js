// The page works without this: it only opens the section that a link leads to, and all of them for printing.
(() => {
  const reveal = (hash) => {
    const target = hash.length > 1 && document.getElementById(hash.slice(1));
    const section = target && target.closest("details");
    if (section) {
      section.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", () => reveal(location.hash));
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) reveal(link.hash); // the same link again changes no hash
  });
  reveal(location.hash);

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const section of opened) section.open = true;
  });
  addEventListener("afterprint", () => {
    for (const section of opened) section.open = false;
  });
})();
