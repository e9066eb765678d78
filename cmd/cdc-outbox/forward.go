package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/forward"
)

func (a *app) forwardCommand() *cobra.Command {
	var o forward.Flags
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Post the records of topics to an HTTP endpoint, with a ledger in Postgres",
		Long: `forward reads topics as a consumer group and posts each record to --to, the records of a key in their
order. A ledger in Postgres (package inbox) remembers what was handled. A process that was frozen or cut off during a
call may complete it after another one has called for later events of the key; its Idempotency-Key shows the repeat.

By default a call is made at least once for each event, with the event's id as Idempotency-Key, and only once unless
the process or the ledger's database ends during the call. With --at-most-once no event is called for twice: a call
whose outcome is unknown becomes a dead letter.

2xx: handled. 408, 409, 5xx, a time-out: tried again for --budget, then a dead letter. 3xx, 401 to 405, 407, 425, 429,
502, 503, 504, no connection: the record waits, as does its partition; Retry-After is obeyed up to 30 s. Other 4xx: a
dead letter at once. Dead letters go to TOPIC.DLT, which must exist; see cdc-outbox dead-letter --in.

It serves /readyz, /status and /metrics at http.listen, and stops like run.

Exit codes: 0 stopped as asked, 1 failed, 2 the command line or the configuration is wrong, 3 an operator has to fix
something.`,
		Example: `  cdc-outbox forward --topic order.events --group billing --to https://billing.internal/events \
    --create-ledger
  cdc-outbox forward --pattern '.*\.events' --group mail --to https://mail.internal/send --at-most-once \
    --ledger-dsn @/run/secrets/mail-dsn --header 'Authorization: @/run/secrets/token'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.forward(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Topics, "topic", nil, "topic to read; may be repeated")
	f.StringVar(&o.Pattern, "pattern", "", "regular expression for whole names of more topics, also of later ones")
	f.StringVar(&o.Group, "group", "", "consumer group, and the name under which the ledger remembers events")
	f.StringVar(&o.To, "to", "", "URL to which each record is posted")
	f.BoolVar(&o.AtMostOnce, "at-most-once", false, "never call twice for an event; unknown outcomes are dead letters")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Second, "of one call")
	f.DurationVar(&o.Budget, "budget", time.Minute, "how long one record may be tried before it is a dead letter")
	f.StringArrayVar(&o.Headers, "header", nil, "'NAME: VALUE' or 'NAME: @FILE' for every call; may be repeated")
	f.StringArrayVar(&o.Pass, "pass", nil, "record header to pass on by its name; may be repeated")
	f.StringVar(&o.Prefix, "header-prefix", "Event-", "of the headers about the record: Id, Type, Key, Topic, …")
	f.StringVar(&o.ContentType, "content-type", "application/json", "of records without a content-type header")
	f.StringVar(&o.DSN, "ledger-dsn", "", "ledger's database, or @FILE; default: postgres.dsn")
	f.StringVar(&o.Table, "ledger-table", "processed_events", "ledger's table")
	f.BoolVar(&o.CreateLedger, "create-ledger", false, "create the ledger's table if it is missing")
	f.BoolVar(&o.FromEnd, "from-end", false, "a new group begins at the end of the topics")
	return cmd
}

func (a *app) forward(cmd *cobra.Command, o *forward.Flags) error {
	fo, err := o.Options()
	if err != nil {
		return err
	}
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(a.stderr, c.Log.Level, a.logFormat(c))
	if err != nil {
		return err
	}
	a.stay(log)
	dsn, err := o.Ledger(routing.DSN(c))
	if err != nil {
		return err
	}
	return service.Forward(cmd.Context(), a.options(c, log), fo, dsn, o.CreateLedger)
}
