package runbook

// Published is the URL of the published runbook. The other pages are beside it.
const Published = publishedPages + "runbook.md"

const publishedPages = "https://github.com/cdc-outbox/cdc-outbox/blob/main/docs/"

// Path is the path at which a process serves the runbook, relative to its page.
const Path = "runbook/"

// Section returns the URL of a section of the runbook at base. The name of an alert is the name of its section.
func Section(base, name string) string { return base + "#" + name }
