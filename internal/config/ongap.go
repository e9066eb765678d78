package config

// OnGapHeal is the value of on_gap with which a lost slot is made again, and the gap healed.
const OnGapHeal = "heal"

// onGap refuses to heal where it is known beforehand that it is not possible.
func (l *loader) onGap(c *Config) {
	const key, allowed = "on_gap", "report"
	p := &c.Postgres
	switch {
	case c.OnGap != OnGapHeal || c.Source == SourcePolling:
	case c.Sink != SinkKafka:
		l.fail(key, allowed, "is heal, which reads the topics, and sink is %s", c.Sink)
	case p.HotStandby:
		l.fail(key, allowed, "is heal together with postgres.hot_standby; the list of rows can only be written on a "+
			"primary")
	case p.CheckpointTable() == "":
		l.fail(key, allowed, "is heal, and postgres.checkpoint is off, so gaps are kept nowhere")
	case len(p.OutboxTables()) == 0 || len(p.Slot) > 43:
		l.fail(key, allowed, "is heal, which needs postgres.tables, and a slot whose name has at most 43 bytes")
	}
}
