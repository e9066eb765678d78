package slotmonitor

import (
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// Figures are what an alert's receivers get of a slot. Fields are added, not renamed.
type Figures struct {
	Database          string   `json:"database"`
	Active            bool     `json:"active"`
	WALStatus         string   `json:"wal_status"`
	RetainedBytes     int64    `json:"retained_wal_bytes"`
	UnconfirmedBytes  int64    `json:"unconfirmed_wal_bytes"`
	SafeBytes         *int64   `json:"safe_wal_bytes"`
	GrowthPerSecond   *float64 `json:"growth_bytes_per_second"`
	SecondsToLimit    *float64 `json:"seconds_to_limit"`
	SecondsToFull     *float64 `json:"seconds_to_full,omitempty"`
	RestartLSN        string   `json:"restart_lsn,omitempty"`
	ConfirmedFlushLSN string   `json:"confirmed_flush_lsn,omitempty"`
}

// Figures of the slot.
func (s *Slot) Figures() Figures {
	return Figures{
		Database: s.Database, Active: s.Active, WALStatus: s.WALStatus, RetainedBytes: s.RetainedBytes,
		UnconfirmedBytes: s.UnconfirmedBytes, SafeBytes: s.SafeBytes, GrowthPerSecond: s.GrowthPerSecond,
		SecondsToLimit: s.SecondsToLimit, SecondsToFull: s.SecondsToFull, RestartLSN: s.RestartLSN,
		ConfirmedFlushLSN: s.ConfirmedFlushLSN,
	}
}

// LogFields implements alert.Figures.
func (f Figures) LogFields() []zap.Field {
	fields := []zap.Field{
		zap.String(logkey.WALStatus, f.WALStatus), zap.Int64(logkey.Retained, f.RetainedBytes),
		zap.Int64(logkey.Unconfirmed, f.UnconfirmedBytes),
	}
	if f.SecondsToLimit != nil {
		fields = append(fields, zap.Float64(logkey.SecondsToLimit, *f.SecondsToLimit))
	}
	if f.SecondsToFull != nil {
		fields = append(fields, zap.Float64(logkey.SecondsToFull, *f.SecondsToFull))
	}
	return fields
}
