package telemetry

import (
	"errors"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// ErrorFields takes an error apart into fields, so that the object and the position of a *fault.Error can be searched
// for rather than only read.
func ErrorFields(err error) []zap.Field {
	if err == nil {
		return nil
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		return []zap.Field{zap.String(logkey.Cause, err.Error()), zap.String(logkey.Fault, fault.KindOf(err).String())}
	}
	fields := []zap.Field{zap.String(logkey.Fault, f.Kind.String()), zap.String(logkey.Object, f.Object)}
	if f.At != "" {
		fields = append(fields, zap.String(logkey.At, f.At))
	}
	if f.Err != nil {
		fields = append(fields, zap.String(logkey.Cause, f.Err.Error()))
	}
	return append(fields, RemedyFields(f.Remedy())...)
}

// RemedyFields are the fields of a remedy.
func RemedyFields(r fault.Remedy) []zap.Field {
	var fields []zap.Field
	if r.Next != "" {
		fields = append(fields, zap.String(logkey.Next, r.Next))
	}
	if len(r.Commands) > 0 {
		fields = append(fields, zap.Strings(logkey.Commands, r.Commands))
	}
	return fields
}
