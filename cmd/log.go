package cmd

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// logFlags say how to log.
type logFlags struct {
	level  string
	format string
}

func (f *logFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	command.Flags().StringVar(&f.format, "log-format", "text", "text or json")
}

func (f *logFlags) logger(out io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, badInput("--log-level: want debug, info, warn or error, got %q", f.level)
	}
	options.Level = level
	var logger *slog.Logger
	switch f.format {
	case "text":
		logger = slog.New(slog.NewTextHandler(out, options))
	case "json":
		logger = slog.New(slog.NewJSONHandler(out, options))
	default:
		return nil, badInput("--log-format: want text or json, got %q", f.format)
	}
	// client-go logs by klog: watches that break, and the election.
	klog.SetSlogLogger(logger)
	return logger, nil
}
