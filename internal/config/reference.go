package config

import (
	"fmt"
	"strings"
)

// Reference returns docs/configuration.md, made from the structs so that it cannot say anything else than they do.
// What cannot be used yet comes last, under a heading that says so.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n## Example\n\nEvery key has a default; a file holds only what differs.\n\n```yaml\n" + exampleFile + "```\n")
	section := ""
	for _, f := range fields() {
		if s := sectionOf(f.Key); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s\n", section)
		}
		f.describe(&b)
	}
	return b.String()
}

// describe writes the key's entry.
func (f Field) describe(b *strings.Builder) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n", f.Key, f.Doc)
	fmt.Fprintf(b, "- Variable `%s`", f.Env)
	if f.Secret() {
		fmt.Fprintf(b, ", or `%s%s` with the name of a file", f.Env, fileSuffix)
	}
	fmt.Fprintf(b, "; flag `--%s`\n", f.Flag)
	fmt.Fprintf(b, "- Type: %s%s; default: %s\n", f.Type, words(f.OneOf), code(f.Default))
	if f.Example != "" {
		fmt.Fprintf(b, "- Example: %s\n", code(f.Example))
	}
}

func sectionOf(key string) string {
	if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
		return key[:dot]
	}
	return key
}

func words(oneOf []string) string {
	if len(oneOf) == 0 {
		return ""
	}
	quoted := make([]string, 0, len(oneOf))
	for _, w := range oneOf {
		quoted = append(quoted, code(w))
	}
	return ", one of " + strings.Join(quoted, ", ")
}

func code(s string) string {
	if s == "" {
		return "empty"
	}
	return "`" + s + "`"
}

// exampleFile is loaded by a test.
const exampleFile = `postgres:
  dsn: "@/run/secrets/cdc-outbox-dsn"      # a file that holds postgres://cdc_outbox:…@db.internal:5432/shop?sslmode=verify-full
  slot: cdc_outbox                         # one per connector
  tables: [public.outbox]
  setup: never                             # an owner has run cdc-outbox setup
router:
  topic: "${aggregate_type}.events"
  on_bad_row: halt
kafka:
  brokers: [kafka-1.internal:9093, kafka-2.internal:9093]
  compression: lz4
  tls:
    enabled: true
    ca: /etc/kafka/ca.pem                  # leave it out for the system's authorities
  sasl:
    mechanism: SCRAM-SHA-512
    username: cdc-outbox
    password: "@/run/secrets/kafka-password"
window:
  bytes: 32MiB                             # the process needs about four times as much memory
monitor:
  warn_retained: 1GiB
  critical_retained: 10GiB
http:
  listen: 0.0.0.0:9464                     # no authentication: a private network only
log:
  level: info
  format: json
`

const referenceHead = `# Configuration

<!-- Made from internal/config by: go generate ./internal/config. Do not edit. -->

Every key can stand in a YAML file, in an environment variable and on the command line. A flag wins over a variable,
a variable over the file, the file over the default. ` + "`cdc-outbox config --origins`" + ` shows what a value is and where it
came from.

- The file is named by ` + "`--config FILE`" + ` or ` + "`CDC_OUTBOX_CONFIG`" + `; none is looked for elsewhere.
- Lists are comma separated in variables and flags; mappings and rules are JSON there. An empty variable counts as not set.
- Durations have a unit: ` + "`500ms`, `5s`, `1m30s`" + `. So have sizes: ` + "`32MiB`" + ` is 32 × 1024², ` + "`500MB`" + ` is 500 × 1000².
- A secret that starts with ` + "`@`" + ` is read from the file named behind it, and so is one whose variable ends in ` + "`_FILE`" + `;
  it is read again for each connection, so it can be rotated. In YAML such a value needs quotes:
  ` + "`dsn: \"@/run/secrets/dsn\"`" + `. A secret that really starts with ` + "`@`" + ` is written with ` + "`@@`" + `.
- Prefer a file to a flag for secrets: other users of the host can read a process's flags.
- A key, variable or flag that is not known is an error, and so is a value that is not allowed; all problems are
  reported at once, with exit code 2.
`
