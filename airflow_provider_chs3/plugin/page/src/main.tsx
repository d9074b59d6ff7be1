// What Airflow's UI imports: a component for each place where it shows the page, in its own React, router and theme.
import { ChakraProvider, type SystemContext } from "@chakra-ui/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useMemo } from "react";
import { App } from "./app";
import type { Place } from "./model/place";
import { systemOf } from "./ui/theme";

declare global {
  var ChakraUISystem: SystemContext | undefined;
}

// Outside the component: Airflow creates it anew with each address.
const client = new QueryClient({ defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: true } } });

export default function AirflowPlugin(place: Place) {
  const host = globalThis.ChakraUISystem;
  const system = useMemo(() => systemOf(host), [host]);
  return (
    <ChakraProvider value={system}>
      <QueryClientProvider client={client}>
        <App place={place} />
      </QueryClientProvider>
    </ChakraProvider>
  );
}
