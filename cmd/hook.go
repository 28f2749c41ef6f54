package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"rtj.dev/rtj/compose"
	"rtj.dev/rtj/hooks"
	"rtj.dev/rtj/hooks/contract"
)

// hookFlags are those of the offline hooks.
type hookFlags struct {
	request string
	catalog string
	now     string
	output  string
	explain bool
	// podIntegration is as for rtj run.
	podIntegration bool
}

func newHook() *cobra.Command {
	command := &cobra.Command{
		Use:   "hook",
		Short: "Answer one hook request offline",
		Long: `Answers one request as the running hooks would, from files, and touches nothing:
patches are printed instead of carried out. Use it to find out what rtj would do,
and which rule decides it.

A request is what Metacontroller sends (version v2): controller, parent, children,
related, finalizing.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("unknown hook %q: want sync, finalize or customize", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(newDecidingHook("sync"), newDecidingHook("finalize"), newCustomizeHook())
	return command
}

func newDecidingHook(name string) *cobra.Command {
	flags := &hookFlags{}
	finalizing := name == "finalize"
	command := &cobra.Command{
		Use:   name + " --request FILE",
		Short: map[bool]string{false: "Decide about a job", true: "Decide about a job that is being deleted"}[finalizing],
		Long: `Prints the answer as JSON: status, children, resyncAfterSeconds and finalized as
the hook answers them, then the patches that it would carry out, and the rules
that decided, each with the facts that it read.`,
		Example: `  rtj hook ` + name + ` --request request.yaml
  rtj hook ` + name + ` --request request.yaml --catalog ./bucket/prefix --explain
  rtj hook ` + name + ` --request - --now 2026-11-29T10:00:00Z <request.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDecidingHook(cmd, flags, finalizing)
		},
	}
	flags.add(command)
	command.Flags().StringVar(&flags.catalog, "catalog", "", "folder to take for the store: what storage.uri names, so that <namespace>/<name>/<run id>/ lies below it; a missing one is an empty store")
	command.Flags().StringVar(&flags.now, "now", "", "time at which to decide and at which the store is listed, RFC 3339; the default is the current time")
	command.Flags().BoolVar(&flags.podIntegration, podIntegrationFlag, true, podIntegrationUsage)
	command.Flags().BoolVar(&flags.explain, "explain", false, "print what was decided and why, for people, instead of the answer")
	return command
}

func newCustomizeHook() *cobra.Command {
	flags := &hookFlags{}
	command := &cobra.Command{
		Use:     "customize --request FILE",
		Short:   "Say which related objects decide about a job",
		Example: `  rtj hook customize --request request.yaml`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := flags.read(cmd)
			if err != nil {
				return err
			}
			request, err := contract.DecodeCustomizeRequest(data)
			if err != nil {
				return badInput("%s: %w", flags.source(), err)
			}
			response, err := new(hooks.Hooks).Customize(cmd.Context(), request)
			if err != nil {
				return badInput("%s: %w", flags.source(), err)
			}
			return flags.print(cmd.OutOrStdout(), response)
		},
	}
	flags.add(command)
	return command
}

func (f *hookFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.request, "request", "", "file with the request, JSON or YAML; - is standard input (required)")
	command.Flags().StringVar(&f.output, "output", "json", "json or yaml")
}

func runDecidingHook(cmd *cobra.Command, flags *hookFlags, finalizing bool) error {
	now := time.Now().UTC()
	if flags.now != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, flags.now); err != nil {
			return badInput("--now: want a time such as 2026-11-29T10:00:00Z, got %q", flags.now)
		}
	}
	data, err := flags.read(cmd)
	if err != nil {
		return err
	}
	request, err := contract.DecodeSyncRequest(data)
	if err != nil {
		return badInput("%s: %w", flags.source(), err)
	}
	answer, err := hooks.Offline(cmd.Context(), request, finalizing, hooks.Moment{
		Now: now, Store: offlineStore(flags.catalog, now), PodIntegration: flags.podIntegration,
	})
	var refused *contract.Error
	if errors.As(err, &refused) {
		return badInput("%s: %w", flags.source(), err)
	}
	if err != nil {
		return err
	}
	if flags.explain {
		return explain(cmd.OutOrStdout(), answer.Observation, answer.Decision)
	}
	response, d := answer.Response, answer.Decision
	return flags.print(cmd.OutOrStdout(), offlineAnswer{
		Status:             response.Status,
		Children:           response.Children,
		ResyncAfterSeconds: response.ResyncAfterSeconds,
		Finalized:          response.Finalized,
		Patches:            orEmpty(d.Patches),
		Rules:              orEmpty(d.Rules),
	})
}

// offlineAnswer is what an offline hook prints: the answer of the hook, and what
// a runner does not get to see.
type offlineAnswer struct {
	Status             json.RawMessage   `json:"status"`
	Children           []json.RawMessage `json:"children"`
	ResyncAfterSeconds float64           `json:"resyncAfterSeconds"`
	Finalized          bool              `json:"finalized"`
	Patches            []compose.Patch   `json:"patches"`
	Rules              []compose.Match   `json:"rules"`
}

// orEmpty makes a list print as [] rather than null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// source names the request in messages.
func (f *hookFlags) source() string {
	if f.request == "-" {
		return "standard input"
	}
	return f.request
}

// read returns the request as JSON. The flags are checked before anything is read.
func (f *hookFlags) read(cmd *cobra.Command) ([]byte, error) {
	if f.output != "json" && f.output != "yaml" {
		return nil, badInput("--output: want json or yaml, got %q", f.output)
	}
	if f.request == "" {
		return nil, badInput("--request is missing; see %s --help", cmd.CommandPath())
	}
	var data []byte
	var err error
	if f.request == "-" {
		data, err = io.ReadAll(cmd.InOrStdin())
	} else {
		data, err = os.ReadFile(f.request)
	}
	if err != nil {
		return nil, badInput("--request: %w", err)
	}
	if isJSON(f.request, data) {
		return data, nil
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, badInput("%s: not YAML: %s", f.source(), oneLine(err))
	}
	return converted, nil
}

// isJSON decides how a request is read. A brace also begins a YAML mapping in
// flow style, but requests come from runners, which write JSON.
func isJSON(name string, data []byte) bool {
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return false
	}
	return strings.HasSuffix(name, ".json") || bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")), " ")
}

// print writes an answer in the chosen format, with sorted keys in objects.
func (f *hookFlags) print(out io.Writer, answer any) error {
	if f.output == "yaml" {
		data, err := yaml.Marshal(answer)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(answer)
}
