// Shows consecutive blocks for several servers as tabs: in the page, each has a line before it that
// is only the name of its server, in bold. Without this script, and on a forge, all are shown one
// after the other. crates/tidy/src/server_tabs.rs checks the pages.
(() => {
    "use strict";

    const SERVERS = ["MariaDB", "MySQL 9.7", "MySQL 8.0"];
    const STORED = "tachograph-server";
    const groups = [];

    // A browser may forbid storage; then the choice holds on this page.
    const stored = () => {
        try {
            return localStorage.getItem(STORED);
        } catch {
            return null;
        }
    };
    const store = (server) => {
        try {
            localStorage.setItem(STORED, server);
        } catch {
            // As above.
        }
    };

    // The server that a paragraph names, if it has nothing else.
    const serverOf = (element) => {
        const name = element?.tagName === "P" ? element.textContent.trim() : "";
        const strong = element?.firstElementChild;
        const isAlone = strong?.tagName === "STRONG" && strong.textContent.trim() === name;
        return isAlone && SERVERS.includes(name) ? name : null;
    };

    // A block, or the box that mdBook puts around it.
    const isBlock = (element) =>
        element?.tagName === "PRE" || element?.firstElementChild?.tagName === "PRE";

    // The members of the group that begins with a paragraph.
    const membersFrom = (first) => {
        const members = [];
        let element = first;
        for (let server = serverOf(element); server; server = serverOf(element)) {
            const member = { server, label: element, blocks: [] };
            element = element.nextElementSibling;
            while (isBlock(element)) {
                member.blocks.push(element);
                element = element.nextElementSibling;
            }
            if (member.blocks.length === 0) {
                break;
            }
            members.push(member);
        }
        return members;
    };

    const select = (group, server) => {
        const chosen = group.find((tab) => tab.server === server) ?? group[0];
        for (const tab of group) {
            const isChosen = tab === chosen;
            tab.button.setAttribute("aria-selected", String(isChosen));
            tab.button.tabIndex = isChosen ? 0 : -1;
            tab.panel.hidden = !isChosen;
        }
    };

    // All groups follow. The one that was used stays where it is on the screen.
    const choose = (tab) => {
        const before = tab.button.getBoundingClientRect().top;
        for (const group of groups) {
            select(group, tab.server);
        }
        store(tab.server);
        window.scrollBy(0, tab.button.getBoundingClientRect().top - before);
    };

    const onKey = (event, group, index) => {
        const last = group.length - 1;
        const next = {
            ArrowLeft: index === 0 ? last : index - 1,
            ArrowRight: index === last ? 0 : index + 1,
            Home: 0,
            End: last,
        }[event.key];
        if (next === undefined || event.altKey || event.ctrlKey || event.metaKey) {
            return;
        }
        event.preventDefault();
        // mdBook turns pages with these keys.
        event.stopPropagation();
        group[next].button.focus();
        choose(group[next]);
    };

    const build = (members) => {
        const number = groups.length + 1;
        const box = document.createElement("div");
        box.className = "server-tabs";
        const list = document.createElement("div");
        list.setAttribute("role", "tablist");
        list.setAttribute("aria-label", "Server");
        members[0].label.before(box);
        box.append(list);
        const group = members.map(({ server, label, blocks }, index) => {
            const button = document.createElement("button");
            const panel = document.createElement("div");
            const id = `server-tabs-${number}-${index + 1}`;
            button.type = "button";
            button.id = id;
            button.textContent = server;
            button.setAttribute("role", "tab");
            button.setAttribute("aria-controls", `${id}-panel`);
            panel.id = `${id}-panel`;
            panel.setAttribute("role", "tabpanel");
            panel.setAttribute("aria-labelledby", id);
            panel.append(...blocks);
            label.remove();
            list.append(button);
            box.append(panel);
            return { server, button, panel };
        });
        group.forEach((tab, index) => {
            tab.button.addEventListener("click", () => choose(tab));
            tab.button.addEventListener("keydown", (event) => onKey(event, group, index));
        });
        groups.push(group);
    };

    for (const paragraph of document.querySelectorAll("main p")) {
        // The labels of a group that was built are no longer in the page.
        const members = paragraph.isConnected ? membersFrom(paragraph) : [];
        if (members.length > 1) {
            build(members);
        }
    }
    for (const group of groups) {
        select(group, stored());
    }
    // Another tab of the browser has chosen.
    window.addEventListener("storage", (event) => {
        if (event.key === STORED) {
            groups.forEach((group) => select(group, event.newValue));
        }
    });
})();
