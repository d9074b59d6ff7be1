// Before anything is done: what will happen, to which period, and what to know first.
import { Button, Checkbox, Dialog, Portal, Stack, Text } from "@chakra-ui/react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Fragment, useEffect, useRef, useState } from "react";
import { RequestError } from "../api/client";
import { DagLink, RunLink, TaskLink } from "../ui/links";
import { Note } from "../ui/parts";
import { lastRun, perform, type ReloadOptions, type Started } from "./airflow";
import { HeldRows } from "./held";
import { KINDS, whatOf, type Kind, type Subject } from "./kinds";

const GONE =
  "Airflow no longer has the run that loaded this period, so the new run has neither its conf nor its data interval. If the DAG takes " +
  "the period from them, the run loads nothing, and fails unless it also has other loads. The panel will show the outcome.";

// What a person may allow for one run: in which states a load may need it.
const ALLOWED: readonly { name: keyof ReloadOptions; states: ReadonlySet<string> }[] = [
  { name: "replace_rows_of_others", states: new Set(["changed"]) },
  { name: "allow_shrink", states: new Set(["failed", "changed", "changed_in_storage", "blocked"]) },
];

// What cannot be had back.
const ENDS: ReadonlySet<Kind> = new Set<Kind>(["end", "forget", "discard"]);

// A lost answer does not show what Airflow has done.
function failureText(error: Error, started: number): string {
  if (started) {
    return `${error.message} The runs above were started; for the other periods, none was.`;
  }
  return error instanceof RequestError && error.status < 500 ? `Nothing was done. ${error.message}`
    : `${error.message} Airflow may have done it: look at the runs of the DAG before you try again.`;
}

export function Confirm({ kind, subject, close, onStarted, onDone }: {
  kind: Kind; subject: Subject; close: () => void; onStarted: (now: Started) => void; onDone: () => void;
}) {
  const { verb, says, dag, right } = KINDS[kind];
  const { period, periods, rights } = subject;
  const cancel = useRef<HTMLButtonElement>(null);
  const [allowed, allow] = useState<ReloadOptions>({});
  const [started, setStarted] = useState<Started[]>([]);
  // After the panel, which may be drawn in the same moment, and would then lie above: it takes its layer some frames after
  // it is drawn.
  const [isOpen, open] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => { open(true); }, 50);
    return () => { clearTimeout(timer); };
  }, []);
  const client = useQueryClient();
  const last = useQuery({
    queryKey: ["last-run", period.task], queryFn: () => (period.task ? lastRun(period.task) : null), enabled: kind === "reload" || kind === "approve",
  });
  // The second click of a double click comes before the button is drawn as disabled, and would start a second run.
  const isAsked = useRef(false);
  const act = useMutation({
    mutationFn: () => perform(kind, subject, allowed, (now) => {
      setStarted((before) => [...before, now]);
      onStarted(now);
    }),
    onError: () => { isAsked.current = false; },
    onMutate: onDone,
    onSettled: () => {
      // From now on, and while a run is active, the periods are polled more often.
      void client.invalidateQueries({ queryKey: ["periods"] });
      void client.invalidateQueries({ queryKey: ["rights"] });
    },
  });
  const actOnce = () => {
    if (!isAsked.current) {
      isAsked.current = true;
      act.mutate();
    }
  };
  const waits = right === "may_start_runs" && dag(rights)?.is_paused;
  return (
    <Dialog.Root open={isOpen} role="alertdialog" size="md" initialFocusEl={() => cancel.current}
      onOpenChange={(change) => { if (!change.open) { close(); } }}>
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <Dialog.Header><Dialog.Title overflowWrap="anywhere">{verb}: {whatOf(subject)}</Dialog.Title></Dialog.Header>
            <Dialog.Body>
              <Stack gap={3}>
                {(kind === "approve" || kind === "discard") && !act.isSuccess ? <HeldRows subject={subject} /> : null}
                {says(subject).map((text) => <Text key={text}>{text}</Text>)}
                {waits ? <Text>The DAG is paused: the run waits until somebody unpauses it.</Text> : null}
                {last.data === null ? <Note status="warning" title="It may load nothing">{GONE}</Note> : null}
                {kind === "reload" && !act.isSuccess ? ALLOWED.filter(({ states }) => periods.some(({ state }) => states.has(state))).map(({ name }) => (
                  <Checkbox.Root key={name} checked={allowed[name] ?? false} alignItems="start"
                    onCheckedChange={({ checked }) => { allow({ ...allowed, [name]: checked === true || undefined }); }}>
                    <Checkbox.HiddenInput />
                    <Checkbox.Control />
                    <Checkbox.Label fontWeight="normal">{rights.reload_options[name]} Otherwise the load stops.</Checkbox.Label>
                  </Checkbox.Root>
                )) : null}
                <Text role="status" overflowWrap="anywhere">
                  {act.isPending ? "Sending the request to Airflow… " : null}
                  {started.length ? "Started: " : null}
                  {started.map(({ run }) => <Fragment key={run.dag_run_id}><RunLink dagId={run.dag_id} runId={run.dag_run_id} />. </Fragment>)}
                  {act.isError ? failureText(act.error, started.length) : null}
                  {act.isSuccess && kind === "end" && period.task ? <>Marked as failed; ending its queries: <TaskLink task={period.task} />.</> : null}
                  {act.isSuccess && kind === "unpause" && period.task ? <>Unpaused: DAG <DagLink dagId={period.task.dag_id} />.</> : null}
                </Text>
              </Stack>
            </Dialog.Body>
            <Dialog.Footer>
              <Button ref={cancel} variant="outline" onClick={close}>{act.isSuccess ? "Close" : "Cancel"}</Button>
              {act.isSuccess ? null : (
                <Button colorPalette={ENDS.has(kind) ? "red" : "brand"} disabled={act.isPending || last.isLoading || started.length > 0}
                  onClick={actOnce}>{verb}</Button>
              )}
            </Dialog.Footer>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}
