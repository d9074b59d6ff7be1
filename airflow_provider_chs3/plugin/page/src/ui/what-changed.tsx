// What somebody else did to a period, as far as the servers' logs tell.
import { Text } from "@chakra-ui/react";
import { useChanges, type PeriodPlace } from "../api/queries";
import type { State } from "../api/types";
import { changesText, silentText } from "../model/changes";
import { sentence } from "../periods/text";
import { Faint } from "./parts";
import { useZone } from "./zone";

// Empty as long as it is not known: of what is not published, rows alone tell nothing.
export function useWhatChanged(place: PeriodPlace, state: State): string {
  const zone = useZone();
  const { data, dataUpdatedAt } = useChanges(place, state === "changed");
  const isKnown = data?.nodes.some(({ change }) => change.published_rows !== null || change.statements.length);
  return data && isKnown ? changesText(data, dataUpdatedAt / 1_000, zone) : "";
}

export function WhatChanged({ place }: { place: PeriodPlace }) {
  const text = useWhatChanged(place, "changed");
  const { data } = useChanges(place, true);
  const silent = data ? data.error || silentText(data) : "";
  return (
    <>
      {text ? <Text mb={2} fontWeight="medium" overflowWrap="anywhere">{sentence(text)}</Text> : null}
      {silent ? <Faint>More would be known with the logs. {silent}</Faint> : null}
    </>
  );
}
