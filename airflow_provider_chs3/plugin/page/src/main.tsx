// What Airflow's UI imports: a component for each place where it shows the page, in its own React, router and theme.
import { ChakraProvider, type SystemContext } from "@chakra-ui/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { App } from "./app";
import type { Place } from "./model/place";

declare global {
  var ChakraUISystem: SystemContext;
}

// Outside the component: Airflow creates it anew with each address.
const client = new QueryClient({ defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: true } } });

export default function AirflowPlugin(place: Place) {
  return (
    <ChakraProvider value={globalThis.ChakraUISystem}>
      <QueryClientProvider client={client}>
        <App place={place} />
      </QueryClientProvider>
    </ChakraProvider>
  );
}
